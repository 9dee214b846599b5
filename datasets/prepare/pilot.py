"""A pilot: some videos are extracted for a while, timed, and thrown away."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bload.errors import InputError
from datasets.annotations.read import FRAMES_FOLDER
from datasets.cores import cores
from datasets.frames.manifest import Manifest, read_manifest
from datasets.prepare.decoder import Decoder
from datasets.prepare.extract import extract
from datasets.prepare.folder import VIDEOS_FOLDER, FramesFolder, Wanted


@dataclass(frozen=True)
class Pilot:
    """What a pilot did."""

    frames: int
    videos: int
    bytes: int
    seconds: float
    stored_as: str


def pilot(root: Path, wanted: Wanted, seconds: float) -> Pilot:
    """Extract random videos of `wanted` for about so long, as `prepare` would go on to do.

    Raises `InputError` if none is there or gives a frame, or nothing can be written at `root`.
    """
    here = [frames for video, frames in wanted.items() if (root / VIDEOS_FOLDER / video).exists()]
    if not here:
        raise InputError("no video to extract is there yet, so nothing can be timed")
    random.Random(1).shuffle(here)
    stored_as = read_manifest(root / FRAMES_FOLDER) or Manifest()
    decoder = Decoder()
    sizes: list[int] = []  # of every frame's file
    try:
        with TemporaryDirectory(prefix=".pilot_", dir=root) as place:
            folder = FramesFolder(Path(place), wanted, stored_as)
            folder.path.mkdir()
            folder.videos = root / VIDEOS_FOLDER
            began = time.perf_counter()

            def work(_: int) -> int:
                videos = 0
                while here and time.perf_counter() - began < seconds:
                    checksums = extract(folder, decoder, here.pop())[1]
                    sizes.extend(checksum.bytes for checksum in checksums.values())
                    videos += 1
                return videos

            with ThreadPoolExecutor(cores()) as pool:
                try:
                    videos = sum(pool.map(work, range(cores())))
                finally:
                    decoder.stop()
            took = time.perf_counter() - began
    except OSError as error:
        raise InputError(f"{root} cannot be written ({error.strerror}); check the disk") from error
    if not sizes:
        raise InputError(f"{videos} videos gave no frame; python -m datasets.prepare says why")
    return Pilot(len(sizes), videos, sum(sizes), took, stored_as.stored_as())
