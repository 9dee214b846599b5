"""Frames resized once and kept in one file, so that later epochs decode nothing.

    FOLDER/
      frames.u8       all frames of a split one after another, each uint8 (3, h, w)
      manifest.json   what they were made from; written last

A frame is kept in the largest size of its shape that fits into the requested size, or in the size
of its file if that is smaller. Bars of a letterbox are not kept.

The file is read with `preadv`, not through a memory map. That is as fast, and processes share the
system's copy of the file too; but a failing disk raises an error that names the file, while a map
ends the process with a bus error.

T frames, F frames of a table, h x w pixels.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from bload import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.targets import FrameTargets
from datasets.files import lock_folder, plain_file, reading, write_whole
from datasets.frames.files import FrameFiles
from datasets.frames.sizes import fit, gib

DATA, MANIFEST = "frames.u8", "manifest.json"
VERSION = 1

Sizes = dict[tuple[int, int], tuple[int, int]]
"""Annotated size (h, w) -> size in which such frames are kept."""


class FrameCache:
    """The frames of a finished cache, read as `FrameFiles` reads them; `open_cache` opens one.

    Frame f begins at byte ``offsets_F1[f]`` of the file; the last offset is the file's size.
    """

    def __init__(self, folder: Path, sizes: Sizes, offsets_F1: np.ndarray) -> None:
        self.folder, self.sizes, self.offsets_F1 = folder, sizes, offsets_F1
        self._file = (folder / DATA).open("rb", buffering=0)

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) in which frames of the split annotated as `size_hw` are kept."""
        return self.sizes[size_hw]

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one size as uint8 RGB ``(T, 3, h, w)``."""
        size_hw, start = self.stored_size(targets[0].size_hw), int(self.offsets_F1[first])
        frames_T3hw = torch.empty((len(targets), 3, *size_hw), dtype=torch.uint8)
        buffer, bytes_done = frames_T3hw.numpy().data.cast("B"), 0
        while bytes_done < len(buffer):  # one call reads 2 GiB at most
            count = os.preadv(self._file.fileno(), [buffer[bytes_done:]], start + bytes_done)
            if not count:
                raise InputError(
                    f"the frame cache {self.folder / DATA} ends at byte {start + bytes_done}; "
                    f"remove {self.folder} and it is made again"
                )
            bytes_done += count
        return frames_T3hw

    def __del__(self) -> None:
        self._file.close()

    def __reduce__(self) -> tuple:
        return FrameCache, (self.folder, self.sizes, self.offsets_F1)


def open_cache(
    folder: Path | str,
    files: FrameFiles,
    table: FrameTable,
    size_hw: tuple[int, int],
    progress: bool = False,
) -> FrameCache:
    """Open the cache at `folder` of the frames of `table`; make it first if it does not exist.

    Concurrent processes wait for the one that makes it.

    Args:
        folder: its place, one for each split and size.
        files: source of the frames while it is made.
        size_hw: height and width into which every frame is fitted.
        progress: print how large it will be and show a bar while it is made.

    Raises:
        InputError: a cache made from other frames or in another size, something else in its place,
            no space, or a frame that cannot be read.
    """
    folder = Path(folder)
    sizes, offsets_F1 = _layout(table, files, size_hw)
    manifest: dict[str, Any] = {
        "version": VERSION,
        "size": list(size_hw),
        "frames": len(table.names_F),
        "bytes": int(offsets_F1[-1]),
        "names": _names_checksum(table),
        "source": files.identity(table),
    }
    if not (folder / MANIFEST).exists():
        with lock_folder(folder):
            if not (folder / MANIFEST).exists():  # another process may have made it
                _make_room(folder, manifest["bytes"])
                if progress:
                    size = f"{manifest['frames']} frames, {gib(manifest['bytes'])}"
                    print(f"frame cache {folder}: {size}", flush=True)
                write = partial(_write_frames, files, table, sizes, offsets_F1, progress)
                write_whole(folder / DATA, write)
                write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    _check(folder, manifest)
    return FrameCache(folder, sizes, offsets_F1)


def _layout(
    table: FrameTable, files: FrameFiles, size_hw: tuple[int, int]
) -> tuple[Sizes, np.ndarray]:
    """Return kept sizes, none larger than `size_hw` or than in `files`, and ``offsets_F1``."""
    annotated_S2, size_F = np.unique(table.sizes_F2, axis=0, return_inverse=True)
    sizes = {
        (h, w): min(fit((h, w), size_hw), files.stored_size((h, w)), key=math.prod)
        for h, w in annotated_S2.tolist()
    }
    bytes_S = np.array([3 * h * w for h, w in sizes.values()], dtype=np.int64)
    return sizes, np.concatenate([[0], np.cumsum(bytes_S[size_F.reshape(-1)])])


def _names_checksum(table: FrameTable) -> str:
    """Return a checksum of the frames' names in order, their annotated sizes and their videos."""
    digest = hashlib.sha256("\n".join(table.names_F.tolist()).encode())
    digest.update(table.sizes_F2.astype("<i4").tobytes())
    digest.update(table.video_offsets.astype("<i8").tobytes())
    return f"sha256:{digest.hexdigest()}"


def _make_room(folder: Path, bytes_needed: int) -> None:
    """Make the folder, and remove from it what a killed run left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    leftovers = [*folder.glob(f"{DATA}*"), *folder.glob(f"{MANIFEST}.part")]
    if len(leftovers) < len(os.listdir(folder)):
        raise InputError(
            f"{folder} exists and is no frame cache; remove it or give another path for the cache"
        )
    for file in leftovers:
        file.unlink()
    free = shutil.disk_usage(folder).free
    if bytes_needed > free:
        raise InputError(
            f"the frame cache {folder} needs {gib(bytes_needed)} and {gib(free)} are free; "
            "free some space, give another path or a smaller size, or do without it"
        )


def _write_frames(
    files: FrameFiles,
    table: FrameTable,
    sizes: Sizes,
    offsets_F1: np.ndarray,
    progress: bool,
    file: BinaryIO,
) -> None:
    def write(video: int) -> None:
        targets = [table.frame(video, position) for position in range(table.lengths[video])]
        first, kept_hw = int(table.video_offsets[video]), sizes[targets[0].size_hw]
        frames_T3hw = files.read(first, targets)
        if frames_T3hw.shape[2:] != kept_hw:
            frames_T3hw = transforms.resize(frames_T3hw, list(kept_hw), antialias=True)
        content, bytes_done = frames_T3hw.contiguous().numpy().data.cast("B"), 0
        while bytes_done < len(content):  # one call writes 2 GiB at most
            bytes_done += os.pwrite(
                file.fileno(), content[bytes_done:], int(offsets_F1[first]) + bytes_done
            )

    count, hidden = len(table.lengths), None if progress else True
    file.truncate(int(offsets_F1[-1]))
    with ThreadPoolExecutor(16) as pool:
        results = pool.map(write, range(count))
        for _ in tqdm(results, "caching", count, unit="video", disable=hidden):
            pass


def _check(folder: Path, expected: dict[str, Any]) -> None:
    remedy = f"remove {folder} and it is made again, or give another path"
    with reading(folder / MANIFEST, remedy):
        manifest = json.loads(plain_file(folder / MANIFEST).read_text())
        differences = [name for name, value in expected.items() if manifest.get(name) != value]
        if (folder / DATA).stat().st_size != expected["bytes"]:
            differences.append("bytes on disk")
    if differences:
        raise InputError(
            f"the frame cache {folder} is of other frames, of another size or not whole "
            f"({', '.join(differences)}); {remedy}"
        )
