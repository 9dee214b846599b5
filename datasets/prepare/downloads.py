"""Whether what has to be downloaded is there, looked at before hours of work."""

import os
from collections.abc import Callable
from pathlib import Path

from bload.errors import InputError
from datasets.annotations.read import (
    FRAMES_FOLDER,
    OBJECTS_FILE,
    PERSONS_FILE,
    SMALL_BOXES_FILE,
    read_annotation_file,
)
from datasets.frames.manifest import read_manifest
from datasets.prepare.wanted import Wanted, annotated_frames

VIDEOS_FOLDER = "videos"


def check_downloads(root: Path, workers: int, say: Callable[[str], None]) -> Wanted:
    """The annotated frames of a root whose downloads are all there; writes nothing.

    Raises `InputError` with everything that is wrong at once: no videos, annotations that are
    missing or cannot be read, a folder of frames that cannot be written. The file without small
    boxes can be done without: what is wrong with it is told by `say`.
    """
    wrong = [f"--workers {workers} is not 1 or more"] if workers < 1 else []
    if not root.is_dir():
        wrong.append(f"{root} is not a folder; give the root that has annotations/ and videos/")
        raise InputError("; and ".join(wrong))
    annotations, frames = root / "annotations", root / FRAMES_FOLDER
    wanted: Wanted = {}
    missing = [f for f in (OBJECTS_FILE, PERSONS_FILE) if not (annotations / f).is_file()]
    if missing:
        wrong.append(
            f"{annotations} lacks {' and '.join(missing)}; put Action Genome's annotations there"
        )
    for file, read in ((OBJECTS_FILE, annotated_frames), (PERSONS_FILE, _read_persons)):
        if file not in missing:
            try:
                wanted = read(root) or wanted
            except InputError as error:
                wrong.append(str(error))
    if not (root / VIDEOS_FOLDER).is_dir():
        wrong.append(f"{root / VIDEOS_FOLDER} is not there; put the Charades videos into it")
    if not (os.access(frames, os.W_OK) and frames.is_dir() if frames.exists() else _writable(root)):
        wrong.append(f"{frames} is no folder that can be written; mend that")
    if wrong:
        raise InputError("; and ".join(wrong))
    _check_videos(root, wanted)
    try:
        read_annotation_file(annotations / SMALL_BOXES_FILE)
    except InputError as error:
        say(
            f"{error}; or do without it: --small-boxes computed of datasets.verify, "
            "dataset.small_boxes=computed of train.py"
        )
    return wanted


def _check_videos(root: Path, wanted: Wanted) -> None:
    """Refuse a folder without any of the videos, unless all their frames are there already."""
    videos = root / VIDEOS_FOLDER
    if any((videos / video).exists() for video in wanted):
        return
    manifest = read_manifest(root / FRAMES_FOLDER)
    if manifest and manifest.complete:
        return
    deeper = sorted({path.parent for path in videos.glob("*/*") if path.name in wanted})
    remedy = "put Charades' videos into it"
    if deeper:
        remedy = f"they are in {deeper[0]}: move them up, or put links to them into {videos}"
    raise InputError(
        f"{videos} has none of the {len(wanted):,} annotated videos ({next(iter(wanted))} is one); "
        f"{remedy}"
    )


def _read_persons(root: Path) -> None:
    read_annotation_file(root / "annotations" / PERSONS_FILE)


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)
