"""What the annotations ask for, and what of it is there."""

import os
from collections.abc import Mapping
from pathlib import Path

from bload.errors import InputError
from datasets.annotations import OBJECTS_FILE
from datasets.frame_names import check_frame_name, frames_by_video, video_of
from datasets.prepare.manifest import Format, file_of
from datasets.unpickler import read_pickle

Wanted = Mapping[str, list[str]]
"""Video -> its annotated frames in order of time, as the annotations name them."""


def annotated_frames(root: Path) -> Wanted:
    """All frames in the object annotations of `root`, whether or not they count later.

    Raises `InputError` for a file that cannot be read or a name that would leave the root.
    """
    path = root / "annotations" / OBJECTS_FILE
    entries_of = read_pickle(path)
    if not isinstance(entries_of, dict) or not entries_of:
        raise InputError(f"{path} is not a dictionary of frames; download it again")
    try:
        for name in entries_of:
            check_frame_name(name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return dict(sorted(frames_by_video(entries_of).items()))


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
