"""One video's annotated frames, written into a folder of their own."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from datasets.annotations.frame_names import frame_number, video_of
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import file_of
from datasets.prepare.checksums import Checksum
from datasets.prepare.decoder import VideoError, decode
from datasets.prepare.encoding import Encoding


@dataclass(slots=True)
class Extracted:
    """What became of a video: file -> checksum, why it is not sound (or None), time it took."""

    video: str
    checksums: dict[str, Checksum] = field(default_factory=dict)
    problem: str | None = None
    seconds: float = 0.0


def partial_folder(frames_folder: Path, video: str) -> Path:
    """Where a video's frames stand until it is complete; never the name of a video."""
    return frames_folder / f".{video}.partial"


def extract(
    root: Path, frames: list[str], encoding: Encoding, stopped: Callable[[], bool]
) -> Extracted | None:
    """Write the `frames` of one video to its partial folder; None if `stopped` on the way.

    Frames that cannot be had are told in `problem`; a disk that cannot be written raises `OSError`.
    """
    began = time.perf_counter()
    done = Extracted(video_of(frames[0]))
    folder = partial_folder(root / FRAMES_FOLDER, done.video)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    frames_of: dict[int, list[str]] = {}
    for frame in frames:
        frames_of.setdefault(frame_number(frame), []).append(frame)
    try:
        for number, image in decode((root / "videos" / done.video).absolute(), frames_of):
            if stopped():
                return None
            for frame in frames_of[number]:
                file = file_of(frame, encoding.format)
                done.checksums[file] = encoding.save(image, folder / file.rpartition("/")[2])
    except VideoError as error:
        done.problem = str(error)
    done.seconds = time.perf_counter() - began
    return done
