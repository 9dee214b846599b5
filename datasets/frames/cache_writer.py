"""Writing a frame cache beside its place.

T frames, h x w pixels.
"""

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.frames.cache_layout import CacheLayout, runs
from datasets.frames.store import FrameStore
from datasets.frames.units import gib

DATA, MANIFEST = "frames.u8", "manifest.json"
RUN = 32
"""Frames that a thread reads at once: some 12 MB of 480 x 270 pixels."""


def write_cache(
    folder: Path,
    store: FrameStore,
    table: FrameTable,
    layout: CacheLayout,
    manifest: Mapping[str, Any],
    progress: bool,
    workers: int,
) -> None:
    """Write the frames of `table` and the manifest into `folder`, which is not there yet.

    Raises `InputError` if something stands there, if there is no space, or for a frame that cannot
    be read; then nothing is left behind.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} exists and is no frame cache; remove it or give another path for the cache"
        )
    partial = folder.parent / f".{folder.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    _check_space(folder, layout.bytes)
    if progress:
        print(f"frame cache {folder}: {len(table.names_F)} frames, {gib(layout.bytes)}", flush=True)
    try:
        partial.mkdir()
        with (partial / DATA).open("wb", buffering=0) as file:
            file.truncate(layout.bytes)
            _write_frames(file.fileno(), store, table, layout, progress, workers)
            os.fsync(file.fileno())
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        os.replace(partial, folder)
    except OSError as error:
        raise InputError(
            f"the frame cache {folder} cannot be written ({error.strerror}); "
            "free some space, give another path, or do without it"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder.parent).free
    if needed > free:
        raise InputError(
            f"the frame cache {folder} needs {gib(needed)} and {gib(free)} are free; "
            "free some space, give another path or a smaller size, or do without it"
        )


def _write_frames(
    file: int,
    store: FrameStore,
    table: FrameTable,
    layout: CacheLayout,
    progress: bool,
    workers: int,
) -> None:
    def write(video: int, first: int, end: int) -> int:
        targets = [table.frame(video, position) for position in range(first, end)]
        start = int(table.video_offsets[video]) + first
        frames_T3hw = store.read(start, targets)
        kept_hw = layout.sizes[targets[0].size_hw]
        if frames_T3hw.shape[2:] != kept_hw:
            frames_T3hw = transforms.resize(frames_T3hw, list(kept_hw), antialias=True)
        rest = memoryview(frames_T3hw.contiguous().numpy()).cast("B")
        at = int(layout.offsets_F1[start])
        while rest:
            done = os.pwrite(file, rest, at)
            rest, at = rest[done:], at + done
        return len(targets)

    with (
        ThreadPoolExecutor(workers) as pool,
        tqdm(
            total=len(table.names_F),
            desc="caching frames",
            unit="frame",
            disable=None if progress else True,
        ) as bar,
    ):
        try:
            for written in as_completed([pool.submit(write, *run) for run in runs(table, RUN)]):
                bar.update(written.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
