"""What the annotations ask for, and what of it is there."""

import os
from collections.abc import Mapping
from pathlib import Path

from bload.errors import InputError
from datasets.annotations import OBJECTS_FILE, read_annotation_file
from datasets.frame_names import check_frame_name, frame_number, frames_by_video, video_of
from datasets.prepare.manifest import Format, file_of
from datasets.problems import Problems, shown

Wanted = Mapping[str, list[str]]
"""Video -> its annotated frames in order of time, as the annotations name them."""


def annotated_frames(root: Path) -> Wanted:
    """All frames in the object annotations of `root`, whether or not they count later.

    Raises `InputError` for a file that cannot be read, and for all names that would leave the root
    or stand for a frame that has another name.
    """
    path = root / "annotations" / OBJECTS_FILE
    problems, number_of = Problems(), {}
    for name in read_annotation_file(path):
        try:
            check_frame_name(name)
        except InputError:
            problems.add("frame names not of the form VIDEO/NUMBER.png", shown(name))
            continue
        other = number_of.setdefault((video_of(name), frame_number(name)), name)
        if other != name:
            problems.add("frames under two names", f"{other} and {name}")
    problems.refuse(path, "mend the file or download it again")
    return dict(sorted(frames_by_video(number_of.values()).items()))


def sizes_there(folder: Path, frames: list[str], format: Format) -> dict[str, int]:
    """Sizes in bytes of the files of one video's `frames` that are there and not empty.

    `folder` is the frames folder; the keys are below it, like ``001YG.mp4/000089.png``.
    """
    video = video_of(frames[0])
    try:
        with os.scandir(folder / video) as entries:
            size_of = {f"{video}/{e.name}": e.stat().st_size for e in entries if e.is_file()}
    except FileNotFoundError:
        return {}
    files = (file_of(frame, format) for frame in frames)
    return {file: size_of[file] for file in files if size_of.get(file)}
