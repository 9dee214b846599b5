"""The files of a frame cache: where each frame lies in them, and how they are written.

T frames, F frames of a table, h x w pixels.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.frames.files import FrameStore
from datasets.frames.one_writer import one_writer
from datasets.frames.sizes import fit, gib
from datasets.write_whole import write_whole

DATA, MANIFEST = "frames.u8", "manifest.json"
RUN = 32
"""Frames that a thread reads at once: some 12 MB of 480 x 270 pixels."""


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Kept size of each annotated one in `sizes`; frame f begins at byte ``offsets_F1[f]``."""

    sizes: dict[tuple[int, int], tuple[int, int]]
    offsets_F1: np.ndarray
    """int64 ``(F + 1,)``; the last is the size of the file."""

    @classmethod
    def of(cls, table: FrameTable, store: FrameStore, size_hw: tuple[int, int]) -> "CacheLayout":
        """Lay out the frames of `table`, none larger than `size_hw` or than in `store`."""
        annotated_S2, which_F = np.unique(table.sizes_F2, axis=0, return_inverse=True)
        sizes = {}
        for annotated_hw in ((int(h), int(w)) for h, w in annotated_S2):
            fitted_hw, own_hw = fit(annotated_hw, size_hw), store.stored_size(annotated_hw)
            sizes[annotated_hw] = min(fitted_hw, own_hw, key=lambda hw: hw[0] * hw[1])
        bytes_S = np.array([3 * h * w for h, w in sizes.values()], dtype=np.int64)
        ends_F = np.cumsum(bytes_S[which_F.reshape(-1)], dtype=np.int64)
        return cls(sizes, np.concatenate([[0], ends_F]))

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return int(self.offsets_F1[-1])


def names_checksum(table: FrameTable) -> str:
    """Return a checksum of the frames' names in order, their annotated sizes and their videos."""
    digest = hashlib.sha256("\n".join(table.names_F.tolist()).encode())
    digest.update(table.sizes_F2.astype("<i4").tobytes())
    digest.update(table.video_offsets.astype("<i8").tobytes())
    return f"sha256:{digest.hexdigest()}"


def write_cache(
    folder: Path,
    store: FrameStore,
    table: FrameTable,
    layout: CacheLayout,
    manifest: Mapping[str, Any],
    progress: bool,
) -> None:
    """Write the frames of `table`, then the manifest, unless another process does so by now.

    Raises `InputError` if `folder` holds something else, if there is no space, or for a frame
    that cannot be read; then no file is left behind.
    """
    try:
        with one_writer(folder):
            if not (folder / MANIFEST).exists():
                _make_room(folder, layout.bytes)
                if progress:
                    count = len(table.names_F)
                    print(f"frame cache {folder}: {count} frames, {gib(layout.bytes)}", flush=True)
                make = partial(_write_frames, store, table, layout, progress)
                write_whole(folder / DATA, make)
                write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    except OSError as error:
        raise InputError(
            f"the frame cache {folder} cannot be written ({error.strerror}); free some space, give "
            "another path, or do without it"
        ) from error


def _make_room(folder: Path, needed: int) -> None:
    """Make the folder and remove from it what a run that was killed left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    left = [*folder.glob(f"{DATA}*"), *folder.glob(f"{MANIFEST}.*.part")]
    if len(left) < len(os.listdir(folder)):
        raise InputError(
            f"{folder} exists and is no frame cache; remove it or give another path for the cache"
        )
    for file in left:
        file.unlink()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the frame cache {folder} needs {gib(needed)} and {gib(free)} are free; "
            "free some space, give another path or a smaller size, or do without it"
        )


def _write_frames(
    store: FrameStore,
    table: FrameTable,
    layout: CacheLayout,
    progress: bool,
    path: Path,
) -> None:
    def write(video: int, first: int) -> int:
        last = min(first + RUN, int(table.lengths[video]))
        targets = [table.frame(video, position) for position in range(first, last)]
        start = int(table.video_offsets[video]) + first
        frames_T3hw = store.read(start, targets)
        kept_hw = layout.sizes[targets[0].size_hw]
        if frames_T3hw.shape[2:] != kept_hw:
            frames_T3hw = transforms.resize(frames_T3hw, list(kept_hw), antialias=True)
        rest = frames_T3hw.contiguous().numpy().data.cast("B")
        at = int(layout.offsets_F1[start])
        while rest:
            done = os.pwrite(file.fileno(), rest, at)
            rest, at = rest[done:], at + done
        return len(targets)

    silent = None if progress else True
    with (
        path.open("wb", buffering=0) as file,
        ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0)))) as pool,
        tqdm(total=len(table.names_F), desc="caching", unit="frame", disable=silent) as bar,
    ):
        file.truncate(layout.bytes)
        lengths = enumerate(table.lengths.tolist())
        runs = [(video, first) for video, length in lengths for first in range(0, length, RUN)]
        try:
            for written in as_completed([pool.submit(write, *run) for run in runs]):
                bar.update(written.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        os.fsync(file.fileno())
