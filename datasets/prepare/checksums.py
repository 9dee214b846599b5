"""What every frame file was when it was written: ``frames/checksums.txt``.

A line a file: ``CRC32 BYTES VIDEO/FRAME``. A video's lines are added just before it takes its
place, so that a run killed at any time leaves no video without them. Of several lines of a file the
last one counts.
"""

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bload.errors import InputError

CHECKSUMS = "checksums.txt"


class Checksum(NamedTuple):
    """Size and CRC-32 of a file: they tell damage, not a forger."""

    bytes: int
    crc32: int


def checksum_of(data: bytes) -> Checksum:
    """The checksum of a file's content."""
    return Checksum(len(data), zlib.crc32(data))


def read_checksums(frames_folder: Path | str) -> dict[str, Checksum]:
    """File below the frames folder -> its checksum; empty if an older version wrote the frames.

    A line that was cut off is as good as none: its file has to be read to be trusted. Raises
    `InputError` if the file is there and cannot be read.
    """
    path, checksum_of_file = Path(frames_folder) / CHECKSUMS, {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); mend that") from error
    for line in lines:
        crc32, _, rest = line.partition(" ")
        size, _, file = rest.partition(" ")
        try:
            checksum_of_file[file] = Checksum(int(size), int(crc32, 16))
        except ValueError:
            continue
    return checksum_of_file


def add_checksums(frames_folder: Path, checksums: Mapping[str, Checksum]) -> None:
    """Add lines to the file."""
    with (frames_folder / CHECKSUMS).open("a", encoding="utf-8") as file:
        file.write(_lines(checksums))
        file.flush()
        os.fsync(file.fileno())


def write_checksums(frames_folder: Path, checksums: Mapping[str, Checksum]) -> None:
    """Write the file anew beside its place and rename it."""
    partial = frames_folder / f".{CHECKSUMS}.partial"
    with partial.open("w", encoding="utf-8") as file:
        file.write(_lines(dict(sorted(checksums.items()))))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, frames_folder / CHECKSUMS)


def _lines(checksums: Mapping[str, Checksum]) -> str:
    return "".join(f"{crc32:08x} {size} {name}\n" for name, (size, crc32) in checksums.items())
