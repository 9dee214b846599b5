"""A small root of frames of three sizes, a store that decodes it, and a process that caches it."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import torch

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import FrameCache, open_cache
from datasets.frames.decode import decode
from datasets.frames.identity import frames_identity
from tests.datasets.image_making import encode

SIZES = {"A.mp4": (24, 40), "B.mp4": (40, 24), "C.mp4": (6, 8), "D.mp4": (24, 40)}
LENGTH = 5


@dataclass
class Files:
    """Decodes frames of their annotated size, and notes every frame in the file `log`."""

    root: Path
    log: Path
    killed_at: str = ""
    forbidden: bool = False

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        return size_hw

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        assert not self.forbidden, "nothing may be decoded now"
        with self.log.open("a") as log:
            for step, target in enumerate(targets):
                log.write(f"{first + step} {target.name}\n")
        if self.killed_at in [target.name for target in targets]:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.stack([decode(self.root / FRAMES_FOLDER / each.name) for each in targets])


def make_frames(root: Path, seed: int = 0) -> FrameTable:
    """Write the frames and give their table: a video of each size of `SIZES`."""
    rng, videos = np.random.default_rng(seed), []
    for video, (h, w) in SIZES.items():
        targets = []
        (root / FRAMES_FOLDER / video).mkdir(parents=True)
        for number in range(1, LENGTH + 1):
            name = f"{video}/{number:06d}.png"
            pixels_hw3 = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
            (root / FRAMES_FOLDER / name).write_bytes(encode(pixels_hw3))
            targets.append(
                FrameTargets(
                    name=name,
                    size_hw=(h, w),
                    person_box_4=np.zeros(4, np.float32),
                    object_boxes_M4=np.zeros((1, 4), np.float32),
                    object_classes_M=np.full(1, 2),
                    relations_G2=np.zeros((1, 2), np.int64),
                )
            )
        videos.append(Video(video, tuple(targets)))
    return FrameTable.of(videos)


def read_all(store: FrameCache | Files, table: FrameTable) -> list[torch.Tensor]:
    """Frames of each video by one read."""
    offsets = table.video_offsets.tolist()
    return [
        store.read(offsets[video], [table.frame(video, t) for t in range(int(length))])
        for video, length in enumerate(table.lengths)
    ]


def build(store: Files, folder: Path, table: FrameTable, ready: Barrier) -> None:
    """What a process of its own does."""
    source = frames_identity(store.root, table)
    ready.wait()
    open_cache(folder, store, table, (12, 12), source=source, workers=2)
    os._exit(0)
