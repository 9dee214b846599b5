"""Frames resized once and kept in one file, so that later epochs decode nothing.

    FOLDER/
      frames.u8       all frames of a split one after another, each uint8 (3, h, w)
      manifest.json   what they were made from; written last

A frame is kept in the largest size of its shape that fits into the size asked for, or in that of
the store it comes from if that is smaller. Bars of a letterbox are not kept.

The file is read with `preadv` and not through a memory map. That is as fast, processes share the
system's copy of the file all the same, and a failing disk is an error that names the file, where a
map ends the process with a bus error.

T frames, h x w pixels.
"""

import json
import os
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import torch

from bload.errors import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache_file import DATA, MANIFEST, CacheLayout, names_checksum, write_cache
from datasets.frames.files import FrameStore

VERSION = 1
_CHECKSUMS = {
    "names": "its frames have other names, sizes or videos",
    "source": "its frames were written or copied anew since, or are those of another root",
}


class FrameCache:
    """A `FrameStore` that reads a finished cache; open or make one with `open_cache`."""

    def __init__(self, folder: Path, layout: CacheLayout) -> None:
        self.folder = folder
        self._layout = layout
        self._file: FileIO | None = None

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) in which frames of the split annotated as `size_hw` are kept."""
        return self._layout.sizes[size_hw]

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one size as uint8 RGB ``(T, 3, h, w)``, see `FrameStore`."""
        height, width = self.stored_size(targets[0].size_hw)
        start, end = self._layout.offsets_F1[[first, first + len(targets)]].tolist()
        frames_T3hw = torch.empty((len(targets), 3, height, width), dtype=torch.uint8)
        one_size = len({target.size_hw for target in targets}) == 1
        if not one_size or end - start != frames_T3hw.numel():
            raise IndexError(
                f"frames {first} to {first + len(targets) - 1} are not of one size, or not these"
            )
        self._fill(frames_T3hw.numpy().data.cast("B"), start)
        return frames_T3hw

    def _fill(self, buffer: memoryview, start: int) -> None:
        path = self.folder / DATA
        try:
            if self._file is None:
                self._file = path.open("rb", buffering=0)
            done = 0
            while done < len(buffer):
                # One call reads 2 GiB at most.
                got = os.preadv(self._file.fileno(), [buffer[done:]], start + done)
                if not got:
                    raise OSError(0, f"it ends at byte {start + done}")
                done += got
        except OSError as error:
            raise InputError(
                f"the frame cache {path} cannot be read ({error.strerror}); "
                f"remove {self.folder} and it is made again"
            ) from error

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_file": None}


def open_cache(
    folder: Path | str,
    store: FrameStore,
    table: FrameTable,
    size_hw: tuple[int, int],
    *,
    source: str,
    progress: bool = False,
) -> FrameCache:
    """Open the cache at `folder` of the frames of `table`; make it first if it is not there.

    Processes that ask at the same time wait for the one that makes it.

    Args:
        folder: its place, one for each split and size.
        store: where frames come from while it is made.
        size_hw: height and width into which every frame is fitted.
        source: what identifies the frames' files, see `FrameFiles.identity`.
        progress: print how large it will be and show a bar while it is made.

    Raises:
        InputError: a cache made from other frames or in another size, something else in its
            place, no space, or a frame that cannot be read.
    """
    folder = Path(folder)
    layout = CacheLayout.of(table, store, size_hw)
    manifest = {
        "version": VERSION,
        "size": list(size_hw),
        "frames": len(table.names_F),
        "bytes": layout.bytes,
        "names": names_checksum(table),
        "source": source,
    }
    if not (folder / MANIFEST).exists():
        write_cache(folder, store, table, layout, manifest, progress)
    _check(folder, manifest)
    return FrameCache(folder, layout)


def _check(folder: Path, wanted: Mapping[str, Any]) -> None:
    try:
        found = json.loads((folder / MANIFEST).read_text())
        pairs = {name: (found.get(name), value) for name, value in wanted.items()}
        pairs["bytes on disk"] = (folder / DATA).stat().st_size, wanted["bytes"]
    except (OSError, ValueError, AttributeError) as error:
        wrong = f"cannot be read ({error})"
    else:
        differences = [
            _CHECKSUMS.get(name, f"{name} {has} instead of {asked}")
            for name, (has, asked) in pairs.items()
            if has != asked
        ]
        if not differences:
            return
        wrong = f"is not that of these frames: {', '.join(differences)}"
    raise InputError(
        f"the frame cache {folder} {wrong}; remove {folder} and it is made again, or give another "
        "path"
    )
