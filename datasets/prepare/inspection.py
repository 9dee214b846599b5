"""Which frames are there as they were written, and which are not."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.frame_names import video_of
from datasets.frames.decode import check_image
from datasets.frames.manifest import Format
from datasets.prepare.checksums import Checksum, checksum_of
from datasets.prepare.wanted import Wanted, sizes_there


@dataclass(slots=True)
class Inspected:
    """The files of one video: those that can be kept, and the names of those that cannot."""

    video: str
    sound: dict[str, Checksum] = field(default_factory=dict)
    altered: list[str] = field(default_factory=list)


def inspect(
    folder: Path,
    wanted: Wanted,
    format: Format,
    written: Mapping[str, Checksum],
    *,
    read_all: bool,
    workers: int,
    progress: bool,
) -> Iterator[Inspected]:
    """Hold the frames in `folder`, the frames folder, against what was `written`, video by video.

    A file must have the size that was written, with `read_all` the CRC-32 too. One that nothing
    was written about is read: it must be a whole image, of the size that most such frames of its
    video have.
    """
    look = partial(_inspect, folder, format, written, read_all)
    pool = ThreadPoolExecutor(workers)  # reading and checksums free the lock
    try:
        videos = pool.map(look, wanted.values())
        silent = None if progress else True
        yield from tqdm(videos, "looking", len(wanted), leave=False, unit="video", disable=silent)
    finally:
        pool.shutdown(cancel_futures=True)


def _inspect(
    folder: Path,
    format: Format,
    written: Mapping[str, Checksum],
    read_all: bool,
    frames: list[str],
) -> Inspected:
    inspected = Inspected(video_of(frames[0]))
    unknown: dict[str, tuple[Checksum, tuple[int, int]]] = {}
    for file, size in sizes_there(folder, frames, format).items():
        before = written.get(file)
        if before and not read_all and size == before.bytes:
            inspected.sound[file] = before
        elif before and size != before.bytes:
            inspected.altered.append(file)
        else:
            try:
                data = (folder / file).read_bytes()
                if before is None:
                    unknown[file] = checksum_of(data), check_image(data, folder / file)
                elif checksum_of(data) == before:
                    inspected.sound[file] = before
                else:
                    inspected.altered.append(file)
            except (InputError, OSError):
                inspected.altered.append(file)
    usual = Counter(size_hw for _, size_hw in unknown.values()).most_common(1)
    for file, (checksum, size_hw) in unknown.items():
        if size_hw == usual[0][0]:
            inspected.sound[file] = checksum
        else:
            inspected.altered.append(file)
    return inspected
