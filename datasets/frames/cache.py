"""Frames resized once and kept in one file, so that later epochs decode nothing.

    FOLDER/
      frames.u8       all frames of a split one after another, each uint8 (3, h, w)
      manifest.json   what they were made from; written last

A frame is kept in the largest size of its shape that fits into the requested size, or in the size
of its file if that is smaller. Bars of a letterbox are not kept.

V videos, T frames, h x w pixels.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from bload import InputError
from datasets.annotations.targets import FrameTargets, Video
from datasets.files import lock_folder, write_whole
from datasets.frames.files import FrameFiles
from datasets.frames.sizes import fit, gib

DATA, MANIFEST = "frames.u8", "manifest.json"
VERSION = 2
READERS = 16  # threads that decode while a cache is made


class FrameCache:
    """The frames of a finished cache, read as `FrameFiles` reads them; `open_cache` opens one.

    Args:
        size_hw: height and width into which every frame is fitted.

    Attributes: `offsets`, the byte of `DATA` at which each video begins, and the file's size.
    """

    def __init__(self, folder: Path, videos: Sequence[Video], size_hw: tuple[int, int]) -> None:
        self.folder, self.size_hw = folder, size_hw
        bytes_V = [len(v.frames) * 3 * math.prod(self.stored_size(v.size_hw)) for v in videos]
        self.offsets = np.cumsum([0, *bytes_V], dtype=np.int64).tolist()

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) in which frames of the split annotated as `size_hw` are kept."""
        return min(fit(size_hw, self.size_hw), size_hw, key=math.prod)

    def read(self, video: int, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one size as uint8 RGB ``(T, 3, h, w)``."""
        shape = (3, *self.stored_size(targets[0].size_hw))
        start, count = self.offsets[video] + first * math.prod(shape), len(targets)
        pixels = np.fromfile(self.folder / DATA, np.uint8, count * math.prod(shape), offset=start)
        if len(pixels) < count * math.prod(shape):
            raise InputError(f"the frame cache {self.folder} was cut short; remove it")
        return torch.from_numpy(pixels).reshape(count, *shape)


def open_cache(
    folder: Path | str,
    files: FrameFiles,
    videos: Sequence[Video],
    size_hw: tuple[int, int],
    progress: bool = False,
) -> FrameCache:
    """Open the cache at `folder` of the frames of `videos`; make it first if it does not exist.

    Concurrent processes wait for the one that makes it.

    Args:
        folder: its place, one for each split and size.
        files: source of the frames while it is made.
        size_hw: height and width into which every frame is fitted.
        progress: print how large it will be and show a bar while it is made.

    Raises:
        InputError: a cache made from other frames or in another size, no space, or a frame that
            cannot be read.
    """
    folder = Path(folder)
    cache, data, manifest = FrameCache(folder, videos, size_hw), folder / DATA, folder / MANIFEST
    size = cache.offsets[-1]
    made_from = {"version": VERSION, "size": [*size_hw], "frames": _checksum(files, videos)}
    if not manifest.exists():
        with lock_folder(folder):
            if not manifest.exists():  # another process may have made it
                folder.mkdir(parents=True, exist_ok=True)
                if size > (free := shutil.disk_usage(folder).free):
                    raise InputError(
                        f"the frame cache {folder} needs {gib(size)} and {gib(free)} are free; "
                        "free some space, give another path or a smaller size, or do without it"
                    )
                if progress:
                    print(f"frame cache {folder}: {gib(size)}", flush=True)
                write_whole(data, lambda file: _write_frames(file, cache, files, videos, progress))
                write_whole(manifest, json.dumps(made_from) + "\n")
    is_whole = data.exists() and data.stat().st_size == size
    if not is_whole or manifest.read_text() != json.dumps(made_from) + "\n":
        raise InputError(
            f"the frame cache {folder} is of other frames, of another size or not whole; remove "
            "it and it is made again, or give another path"
        )
    return cache


def _checksum(files: FrameFiles, videos: Sequence[Video]) -> str:
    """Return a checksum of the frames' names, sizes and files.

    Of a video's files only the first is looked at, its size and its time. So videos extracted or
    copied again are noticed, but not a later frame that was replaced by hand.
    """
    digest = hashlib.sha256()
    for video in videos:
        path = files.folder / video.frames[0].name
        status = path.stat() if path.exists() else None
        file_state = (status.st_size, status.st_mtime_ns) if status else None
        names = [frame.name for frame in video.frames]
        digest.update(repr((names, video.size_hw, file_state)).encode())
    return digest.hexdigest()


def _write_frames(
    file: BinaryIO, cache: FrameCache, files: FrameFiles, videos: Sequence[Video], progress: bool
) -> None:
    def resized(video: Video) -> torch.Tensor:
        frames_T3hw = files.read(0, 0, video.frames)
        kept_hw = cache.stored_size(video.size_hw)
        if frames_T3hw.shape[2:] != kept_hw:
            frames_T3hw = transforms.resize(frames_T3hw, [*kept_hw], antialias=True)
        return frames_T3hw.contiguous()

    with (
        ThreadPoolExecutor(READERS) as pool,
        tqdm(None, "caching", len(videos), unit="video", disable=None if progress else True) as bar,
    ):
        for start in range(0, len(videos), 4 * READERS):  # memory holds no more
            for frames_T3hw in pool.map(resized, videos[start : start + 4 * READERS]):
                file.write(frames_T3hw.numpy().data)
                bar.update()
