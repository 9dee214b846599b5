"""Which frames and videos of Action Genome count, and what they show.

The rules of the scene-graph detection protocol, each one function, in this order: the split of a
frame is its first entry's; a frame counts if some object is visible; it is dropped if it has no
person box; only visible objects stay; a video counts with three frames or more.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bload.errors import InputError
from datasets.targets import FrameTargets
from datasets.unpickler import read_pickle
from datasets.vocabulary import GROUPS, object_index, relation_index

SPLITS = ("train", "test")
MIN_FRAMES = 3
FRAMES_FOLDER = "frames"
OBJECTS_FILE = "object_bbox_and_relationship.pkl"
SMALL_BOXES_FILE = "object_bbox_and_relationship_filtersmall.pkl"
PERSONS_FILE = "person_bbox.pkl"

_FRAME_NAME = re.compile(r"(?!\.)[^/\\\0]+/[0-9]+\.[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Video:
    """One video that counts: its name (``001YG.mp4``) and its frames in order of time."""

    name: str
    frames: tuple[FrameTargets, ...]


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """What each rule left over and took away, for one split."""

    frames_in_split: int
    without_visible_object: int
    without_person: int
    frames_in_short_videos: int
    short_videos: int
    frames: int
    videos: int


@dataclass(frozen=True, slots=True)
class Annotations:
    """One split after filtering: videos sorted by name, and the counts on the way."""

    videos: tuple[Video, ...]
    counts: FilterCounts


def read_annotations(root: Path | str, split: str, *, small_boxes: bool = False) -> Annotations:
    """Read and filter one split of the Action Genome root at `root`.

    `small_boxes` reads the file from which boxes with a short side of 16 pixels or less are out,
    as detection work does. Raises `InputError` naming the path and the remedy when a file is
    missing, empty, broken, or names a class, relation or frame it should not.
    """
    if split not in SPLITS:
        raise InputError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    root = Path(root)
    if not (root / "annotations").is_dir():
        raise InputError(
            f"{root} holds no Action Genome (no folder {root / 'annotations'}); give the root "
            "that has annotations/ and frames/, or make one with "
            f"python -m datasets.synthetic --root {root}"
        )
    objects_path = root / "annotations" / (SMALL_BOXES_FILE if small_boxes else OBJECTS_FILE)
    persons_path = root / "annotations" / PERSONS_FILE
    entries_of = _mapping(read_pickle(objects_path), objects_path)
    person_of = _mapping(read_pickle(persons_path), persons_path)
    try:
        annotations = filter_annotations(entries_of, person_of, split)
    except InputError as error:
        raise InputError(f"{objects_path}: {error}") from None
    if not annotations.videos:
        counts = annotations.counts
        raise InputError(
            f"{objects_path} leaves no video for split {split!r}: of {counts.frames_in_split} "
            f"frames {counts.without_visible_object} show no object, {counts.without_person} have "
            f"no person box in {PERSONS_FILE} and {counts.frames_in_short_videos} are in videos "
            f"of fewer than {MIN_FRAMES}; check that the files belong together"
        )
    return annotations


def filter_annotations(entries_of: dict, person_of: dict, split: str) -> Annotations:
    """Apply the rules to the two dictionaries of the pickles (frame name -> annotation)."""
    in_split = frames_of_split(entries_of, split)
    with_object = [name for name in in_split if some_object_visible(name, entries_of)]
    with_person = [name for name in with_object if has_person(name, person_of)]
    all_videos = frames_by_video(with_person)
    videos = {video: names for video, names in all_videos.items() if len(names) >= MIN_FRAMES}
    kept = sum(map(len, videos.values()))
    return Annotations(
        videos=tuple(
            Video(
                video,
                tuple(frame_targets(name, entries_of[name], person_of[name]) for name in names),
            )
            for video, names in sorted(videos.items())
        ),
        counts=FilterCounts(
            frames_in_split=len(in_split),
            without_visible_object=len(in_split) - len(with_object),
            without_person=len(with_object) - len(with_person),
            frames_in_short_videos=len(with_person) - kept,
            short_videos=len(all_videos) - len(videos),
            frames=kept,
            videos=len(videos),
        ),
    )


def frames_of_split(entries_of: dict, split: str) -> list[str]:
    """Rule 1: names of the frames whose first entry says `split` (no entry, no split)."""
    names = []
    for name, entries in entries_of.items():
        check_frame_name(name)
        try:
            if entries and entries[0]["metadata"]["set"] == split:
                names.append(name)
        except (KeyError, TypeError, IndexError) as error:
            raise _malformed(name, error) from error
    return names


def some_object_visible(name: str, entries_of: dict) -> bool:
    """Rule 2: whether any entry of a frame is visible."""
    try:
        return any(entry["visible"] for entry in entries_of[name])
    except (KeyError, TypeError) as error:
        raise _malformed(name, error) from error


def has_person(name: str, person_of: dict) -> bool:
    """Rule 3: whether the person file has at least one box for a frame."""
    try:
        return name in person_of and len(person_of[name]["bbox"]) > 0
    except (KeyError, TypeError) as error:
        raise _malformed(name, error) from error


def visible_objects(entries: list[dict]) -> list[dict]:
    """Rule 4: the entries that stay."""
    return [entry for entry in entries if entry["visible"]]


def frames_by_video(names: Iterable[str]) -> dict[str, list[str]]:
    """Video -> its frame names in order of time, whatever the order of `names`."""
    videos: dict[str, list[str]] = {}
    for name in names:
        videos.setdefault(name.partition("/")[0], []).append(name)
    for frames in videos.values():
        frames.sort(key=frame_number)
    return videos


def frame_number(name: str) -> int:
    """``001YG.mp4/000089.png`` -> 89."""
    return int(name.rpartition("/")[2].partition(".")[0])


def check_frame_name(name: Any) -> None:
    """Refuse a name that is not VIDEO/NUMBER.EXTENSION, or that would leave the frames folder."""
    if not isinstance(name, str) or not _FRAME_NAME.fullmatch(name):
        raise InputError(
            f"frame name {name!r} is not of the form VIDEO/NUMBER.png, like 001YG.mp4/000089.png; "
            "mend the annotations"
        )


def frame_targets(name: str, entries: list[dict], person: dict) -> FrameTargets:
    """One frame's scene graph from its entries in the object file and in the person file."""
    try:
        visible = visible_objects(entries)
        boxes_M4 = np.array([entry["bbox"] for entry in visible], dtype=np.float32).reshape(-1, 4)
        boxes_M4[:, 2:] += boxes_M4[:, :2]  # corner and size -> two corners
        if len(boxes_M4) != len(visible) or not np.isfinite(boxes_M4).all():
            raise ValueError("a visible object has no box of four numbers")
        relations = [
            (row, relation_index(label, group))
            for row, entry in enumerate(visible)
            for group in GROUPS
            for label in entry[group] or ()
        ]
        width, height = person["bbox_size"]
        return FrameTargets(
            name=name,
            size_hw=(int(height), int(width)),
            person_box_4=np.array(person["bbox"][0], dtype=np.float32).reshape(4),
            object_boxes_M4=boxes_M4,
            object_classes_M=np.array([object_index(e["class"]) for e in visible], dtype=np.int64),
            relations_G2=np.array(relations, dtype=np.int64).reshape(-1, 2),
        )
    except InputError as error:
        raise InputError(f"frame {name}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _malformed(name, error) from error


def _malformed(name: str, error: Exception) -> InputError:
    return InputError(
        f"frame {name} is not annotated as Action Genome does it ({type(error).__name__}: {error});"
        " download or make the file again"
    )


def _mapping(value: Any, path: Path) -> dict:
    if not isinstance(value, dict) or not value:
        raise InputError(
            f"{path} holds {'no frames' if value == {} else type(value).__name__}, not a "
            "dictionary of frames; download or make it again"
        )
    return value
