"""How fast frames come from the frame cache, and how long training waits for them."""

import tempfile
import time
from pathlib import Path

import torch

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.build import build_source
from experiments.benchmarks.frame_reading import make_videos
from experiments.benchmarks.part import Cell, Part, Rows
from experiments.benchmarks.training_step import build_way
from training.config import register
from training.figures import Clock
from training.step import train_step

WORKERS = (0, 2, 8)
SIZE_HW = (480, 640)
SLOTS, EPOCHS = 94, 20


def measure_reading(quick: bool) -> Rows:
    """Frames a second from the cache, in blocks, by number of workers."""
    torch.set_num_threads(1)
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        size_hw = (48, 64) if quick else SIZE_HW
        videos = make_videos(Path(folder), videos=10, length=SLOTS // 2, size_hw=size_hw)
        source = VideoSource(folder, "train", videos, size_hw, cache=Path(folder, "cache"))
        for workers in WORKERS[: 1 if quick else None]:
            loader = BlockLoader(source, "bload_exact", batch_frames=SLOTS, num_workers=workers)
            frames, began = 0, time.perf_counter()
            for epoch in range(1 + EPOCHS):
                loader.set_epoch(epoch)
                frames += sum(int(batch.valid_BT.sum()) for batch in loader)
                if not epoch:
                    first = time.perf_counter() - began
                    frames, began = 0, time.perf_counter()
            rows.append([workers, first, frames / (time.perf_counter() - began)])
    return rows


def measure_waiting(quick: bool) -> Rows:
    """Seconds that an epoch of dds_tiny waits, the workers' start included."""
    torch.set_num_threads(1)
    register()
    rows: Rows = []
    for workers, cached in ((0, True), (1, True), (1, False)):
        row: list[Cell] = [workers, "cache" if cached else "files"]
        for seconds, waited in _epochs(workers, cached, quick):
            row += [seconds, 100 * waited / seconds]
        rows.append(row)
    return rows


def _epochs(workers: int, cached: bool, quick: bool) -> list[tuple[float, float]]:
    """Seconds, and of them waited, of the first two epochs."""
    way = build_way(*([] if cached else ["dataset.cache=null"]))
    loader = BlockLoader(
        build_source(way.cfg.dataset, "train", progress=True),
        "bload_exact",
        batch_frames=way.cfg.train.batch_frames,
        num_workers=workers,
    )
    found = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        sums = {"seconds": 0.0, "waiting": 0.0}
        clock = Clock(sums)
        for number, batches in enumerate(loader.by_step()):
            clock.lap("seconds", "waiting")
            train_step(way.training, batches, epoch, number, loader.steps)
            clock.lap("seconds")
            if quick and number == 3:
                break
        found.append((sums["seconds"], sums["waiting"]))
    return found


READING = Part(
    ("workers", "first epoch, s", "frames/s after it"), ("", ".2f", ",.0f"), measure_reading
)
WAITING = Part(
    ("workers", "frames from", "first epoch, s", "waited, %", "second epoch, s", "waited, %"),
    ("", "", ".1f", ".1f", ".1f", ".1f"),
    measure_waiting,
)
