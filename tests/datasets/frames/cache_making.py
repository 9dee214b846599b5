"""A small root of frames of three sizes, a store that notes what it decodes, and a process."""

import os
import signal
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import FrameCache, open_cache
from datasets.frames.files import FrameFiles

SIZES = {"A.mp4": (24, 40), "B.mp4": (40, 24), "C.mp4": (6, 8), "D.mp4": (24, 40)}
LENGTH = 5


class Files(FrameFiles):
    """Notes the number and name of every frame read in the file `log`; may end the process."""

    def __init__(self, root: Path, log: Path, killed_at: str = "") -> None:
        super().__init__(root)
        self.log, self.killed_at, self.forbidden = log, killed_at, False

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        assert not self.forbidden, "nothing may be decoded now"
        with self.log.open("a") as log:
            for step, target in enumerate(targets):
                log.write(f"{first + step} {target.name}\n")
        if self.killed_at in [target.name for target in targets]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(first, targets)


def make_frames(root: Path, seed: int = 0) -> FrameTable:
    """Write the frames and return their table: a video of each size of `SIZES`."""
    rng, videos = np.random.default_rng(seed), []
    nothing = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
    for video, (h, w) in SIZES.items():
        names = [f"{video}/{number:06d}.png" for number in range(1, LENGTH + 1)]
        (root / FRAMES_FOLDER / video).mkdir(parents=True)
        for name in names:
            pixels_hw3 = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
            Image.fromarray(pixels_hw3).save(root / FRAMES_FOLDER / name)
        targets = [FrameTargets(name, (h, w), nothing[0][0], *nothing) for name in names]
        videos.append(Video(video, tuple(targets)))
    return FrameTable.of(videos)


def read_all(store: FrameCache | Files, table: FrameTable) -> list[torch.Tensor]:
    """Read the frames of each video at once."""
    offsets = table.video_offsets.tolist()
    return [
        store.read(offsets[video], [table.frame(video, t) for t in range(int(length))])
        for video, length in enumerate(table.lengths)
    ]


def build(store: Files, folder: Path, table: FrameTable, ready: Barrier) -> None:
    """Open the cache in a process of its own."""
    ready.wait()
    open_cache(folder, store, table, (12, 12), source=store.identity(table))
    os._exit(0)
