"""The files of frames: which are there, which are not, and whether they can be read."""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.problems import Problems
from datasets.frames.decode import check_image, decode_image, read_file
from datasets.frames.manifest import (
    MANIFEST,
    Manifest,
    file_of,
    frames_checksum,
    read_manifest,
)
from datasets.frames.sizes import stored_size
from datasets.prepare.checksums import Checksum, checksum_of, read_checksums
from datasets.prepare.lock import is_being_written

MISSING = "missing frames"
UNREADABLE = "unreadable frames"
OTHER_SIZE = "frames of another size than annotated"
OTHER_VIDEO = "frames of another size than annotated, as their videos have it"
ALTERED = "frames that are not as datasets.prepare wrote them"
NOT_AS_SAID = "frames folders that are not as their manifest says"
WRITING = "extractions that are going on"
UNFINISHED = "extractions that are not finished"


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

    Every needed file is read: header, size, whether it is whole, the checksums of a PNG, and that
    of `datasets.prepare`; `decode` makes pixels of each as well. Of other annotated files the size
    in bytes is compared. A file that no annotation asks for is a remark.
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
    written = read_checksums(folder) if manifest else {}
    if manifest:
        size_of_file = {f: there[f] for f in asked & there.keys()}
        _check_manifest(folder, manifest, size_of_file, written, problems)
        _check_others(asked - set(file.values()), there, written, problems)
        for video, reason in manifest.problems.items():
            remarks.add("videos that datasets.prepare tells of", f"{video} {reason}")
    short_side = manifest.short_side if manifest else None
    jobs = [
        (folder / file[name], stored_size(size, short_side), written.get(file[name]), decode)
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
    decoder = f", written by {manifest.decoder}" if manifest.decoder else ""
    return f"{manifest.format.upper()} files{quality}, {size}{decoder}"


def _manifest(folder: Path, problems: Problems) -> Manifest | None:
    try:
        return read_manifest(folder)
    except InputError as error:
        problems.add("manifests that cannot be read", str(error))
        return None


def _check_manifest(
    folder: Path,
    manifest: Manifest,
    size_of: dict[str, int],
    written: Mapping[str, Checksum],
    problems: Problems,
) -> None:
    """Tell an extraction that goes on or was cut short, and files that differ where none is known.

    Where files have checksums of their own, in `written`, those say more than that of all.
    """
    if is_being_written(folder):
        problems.add(WRITING, f"datasets.prepare holds the lock of {folder}")
        return
    size_of = {file: size for file, size in size_of.items() if size}
    if written:
        known = size_of.keys() & written.keys()
        as_said = sum(size_of[file] == written[file].bytes for file in known) <= manifest.frames
    else:
        as_said = manifest.checksum in ("", frames_checksum(size_of))
    if as_said:
        return
    if not manifest.complete:
        problems.add(
            UNFINISHED,
            f"{len(size_of):,} annotated frames are there and {folder / MANIFEST} tells of "
            f"{manifest.frames:,}, as after a run that was cut short",
        )
    elif not written:
        problems.add(
            NOT_AS_SAID,
            f"names and sizes of the files do not have the checksum in {folder / MANIFEST}: some "
            "were lost, added or replaced since",
        )


def _check_others(
    asked: set[str], there: Mapping[str, int], written: Mapping[str, Checksum], problems: Problems
) -> None:
    """Compare the sizes in bytes of annotated files that do not count with those written."""
    for file in sorted(asked & written.keys()):
        size = there.get(file, 0)
        if size != written[file].bytes:
            problems.add(ALTERED, f"{file} ({size:,} bytes, not {written[file].bytes:,})")


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


def _check_file(
    job: tuple[Path, tuple[int, int], Checksum | None, bool],
) -> tuple[str, str] | None:
    path, size_hw, written, decode = job
    try:
        data = read_file(path)
        # Decoded, a picture may turn out to be turned.
        found_hw = decode_image(data, path).shape[:2] if decode else check_image(data, path)
    except InputError as error:
        return UNREADABLE, str(error)
    if found_hw != size_hw:
        (height, width), (high, wide) = found_hw, size_hw
        kind = OTHER_VIDEO if written == checksum_of(data) else OTHER_SIZE
        return kind, f"{path} is {width} x {height}, not {wide} x {high}"
    if written and written != checksum_of(data):
        return ALTERED, f"{path} (other content)"
    return None
