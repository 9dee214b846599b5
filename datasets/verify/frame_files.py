"""The files of frames: which are there, which are not, and whether they can be read."""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from bload.errors import InputError
from datasets.image_header import DamagedImage, read_header
from datasets.prepare.manifest import (
    MANIFEST,
    Manifest,
    file_of,
    frames_checksum,
    read_manifest,
)
from datasets.problems import Problems
from datasets.stored_size import stored_size

MISSING = "missing frames"
UNREADABLE = "unreadable frames"
OTHER_SIZE = "frames of another size than annotated"
_MOST_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """How the files compare with the frames that count (`needed`) and with all annotated ones."""

    needed: int
    there: int
    annotated: int
    annotated_there: int
    orphans: int
    checked: int
    decoded: bool


def check_frames(
    folder: Path,
    size_of: Mapping[str, tuple[int, int]],
    annotated: Iterable[str],
    problems: Problems,
    remarks: Problems,
    *,
    decode: bool = False,
    workers: int = 1,
    progress: bool = True,
) -> FrameCounts:
    """Compare the frames folder with the native sizes (h, w) of the frames that count.

    Every needed file is read: header, size, whether it is whole, and the checksums of a PNG;
    `decode` makes pixels of each as well. A file that no annotation asks for is a remark.
    """
    manifest = _manifest(folder, problems)
    there = _sizes(folder)
    file = {name: file_of(name, manifest.format) if manifest else name for name in size_of}
    for name in size_of:
        if file[name] not in there:
            problems.add(MISSING, str(folder / file[name]))
    asked = {file_of(name, manifest.format) if manifest else name for name in annotated}
    orphans = there.keys() - asked
    for orphan in sorted(orphans):
        remarks.add("files in frames/ that no annotation asks for", orphan)
    if manifest:
        _check_manifest(folder, manifest, {f: there[f] for f in asked & there.keys()}, problems)
        for video, reason in manifest.problems.items():
            remarks.add("videos that datasets.prepare tells of", f"{video} {reason}")
    short_side = manifest.short_side if manifest else None
    jobs = [
        (folder / file[name], stored_size(size, short_side), decode)
        for name, size in size_of.items()
        if file[name] in there
    ]
    with ThreadPoolExecutor(workers) as pool:  # reading, checksums and decoding free the lock
        found = pool.map(_check_file, jobs)
        bar = tqdm(
            found, total=len(jobs), desc="frames", unit="frame", disable=None if progress else True
        )
        for wrong in bar:
            if wrong:
                problems.add(*wrong)
    return FrameCounts(
        needed=len(file),
        there=len(jobs),
        annotated=len(asked),
        annotated_there=len(asked & there.keys()),
        orphans=len(orphans),
        checked=len(jobs),
        decoded=decode,
    )


def describe(folder: Path) -> str:
    """The format of the frames, in words, from the manifest if there is one."""
    manifest = _manifest(folder, Problems())
    if manifest is None:
        return "PNG files of native size (no manifest)"
    size = f"short side {manifest.short_side}" if manifest.short_side else "native size"
    quality = f" of quality {manifest.quality}" if manifest.quality else ""
    return f"{manifest.format.upper()} files{quality}, {size}, written by {manifest.decoder}"


def _manifest(folder: Path, problems: Problems) -> Manifest | None:
    try:
        return read_manifest(folder)
    except InputError as error:
        problems.add("manifests that cannot be read", str(error))
        return None


def _check_manifest(
    folder: Path, manifest: Manifest, size_of: dict[str, int], problems: Problems
) -> None:
    checksum = frames_checksum({file: size for file, size in size_of.items() if size})
    if manifest.checksum and manifest.checksum != checksum:
        problems.add(
            "frames folders that are not as their manifest says",
            f"names and sizes of the files do not have the checksum in {folder / MANIFEST}: some "
            "were lost, added or replaced since; run datasets.prepare again",
        )


def _sizes(folder: Path) -> dict[str, int]:
    """Files ``VIDEO/FRAME`` below the frames folder with their bytes; none if it is not there."""
    found: dict[str, int] = {}
    if not folder.is_dir():
        return found
    with os.scandir(folder) as videos:
        names = [video.name for video in videos if video.is_dir() and video.name[0] != "."]
    for video in names:
        with os.scandir(folder / video) as frames:
            found |= {f"{video}/{f.name}": f.stat().st_size for f in frames if f.is_file()}
    return found


def _check_file(job: tuple[Path, tuple[int, int], bool]) -> tuple[str, str] | None:
    path, size_hw, decode = job
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DamagedImage(f"it is larger than {_MOST_BYTES} bytes")
        header = read_header(path.read_bytes())
        if decode:
            _decode(path)
    except (DamagedImage, OSError) as error:
        return UNREADABLE, f"{path} ({error})"
    except InputError as error:
        return UNREADABLE, str(error)
    if header.size_hw != size_hw:
        (height, width), (high, wide) = header.size_hw, size_hw
        return OTHER_SIZE, f"{path} is {width} x {height}, not {wide} x {high}"
    return None


def _decode(path: Path) -> None:
    from datasets.decoders import decode  # torch takes seconds to import, and only this needs it

    decode(path)
