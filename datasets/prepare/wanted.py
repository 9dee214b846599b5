"""What the annotations ask for, and what of it is there."""

import os
from collections.abc import Mapping
from pathlib import Path

from datasets.annotations.frame_names import frames_by_video, sound_names, video_of
from datasets.annotations.problems import Problems
from datasets.annotations.read import OBJECTS_FILE, read_annotation_file
from datasets.frames.manifest import Format, file_of

Wanted = Mapping[str, list[str]]
"""Video -> its annotated frames in order of time, as the annotations name them."""


def annotated_frames(root: Path) -> Wanted:
    """All frames in the object annotations of `root`, whether or not they count later.

    Raises `InputError` for a file that cannot be read, and for all names that
    `datasets.annotations.frame_names.sound_names` finds wrong.
    """
    path = root / "annotations" / OBJECTS_FILE
    problems = Problems()
    names = sound_names(read_annotation_file(path), problems)
    problems.refuse(path, "mend the file or download it again")
    return dict(sorted(frames_by_video(names).items()))


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
