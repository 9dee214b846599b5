"""Rules of the field's own parser of Action Genome, restated in plain loops to compare with.

The scene-graph literature reads the data set as STTran's ``dataloader/action_genome.py`` does.
This says what that gives, on the two dictionaries of the pickles, and shares no code with
`datasets`. Two liberties: frames are ordered by number, as files are in the real data set, and a
frame that only one of the dictionaries has is passed over.
"""

from typing import Any

import numpy as np

GROUPS = ("attention_relationship", "spatial_relationship", "contacting_relationship")


def field_videos(objects: dict, persons: dict, split: str, small: str = "keep") -> dict[str, list]:
    """Video -> its frames that count, each (name, person box, [(class, xyxy, labels), ...])."""
    per_video: dict[str, list[str]] = {}
    for key in objects:
        if key not in persons or len(objects[key]) == 0:
            continue
        if objects[key][0]["metadata"]["set"] != split:
            continue
        seen = False
        for thing in objects[key]:
            if thing["visible"] and not (small == "computed" and narrow(thing)):
                seen = True
        if seen:
            video = key.split("/")[0]
            per_video[video] = [*per_video.get(video, []), key]
    videos = {}
    for video in per_video:
        frames = []
        for key in sorted(per_video[video], key=lambda key: int(key.split("/")[1].split(".")[0])):
            boxes = np.asarray(persons[key]["bbox"], dtype=float).reshape(-1, 4)
            if boxes.shape[0] == 0:
                continue
            things = []
            for thing in objects[key]:
                if thing["visible"] and not (small == "computed" and narrow(thing)):
                    things.append(restated(thing))
            frames.append((key, boxes[0], things))
        if len(frames) > 2:
            videos[video] = frames
    return videos


def narrow(thing: dict[str, Any]) -> bool:
    """True if the shorter side of a box is no more than 16 pixels."""
    return not (thing["bbox"][2] > 16 and thing["bbox"][3] > 16)


def restated(thing: dict[str, Any]) -> tuple[str, np.ndarray, list[str]]:
    """Class and labels without separators, and the box by its corners in double precision."""
    left, top, wide, high = (float(number) for number in thing["bbox"])
    corners = np.array([left, top, left + wide, top + high])
    said = [name.replace("_", "") for group in GROUPS for name in thing[group]]
    return thing["class"].replace("/", ""), corners, said
