"""How fast frames come from the frame cache, and how long training waits for them."""

import tempfile
import time

import torch

from bload import BlockLoader
from datasets.build import build_source
from experiments.benchmarks.part import Cell, Part, Rows
from experiments.benchmarks.training_step import build_way
from experiments.config import register
from experiments.engine import train_epoch
from experiments.sweep import jobs_of

WORKERS = (0, 2, 8)
LARGE = ["dataset.image_size=256", "dataset.train_videos=60", "dataset.test_videos=2"]
CANVAS = [480, 640]
SLOTS = 94


def measure_reading(quick: bool) -> Rows:
    """Frames of 480 x 640 pixels a second from the cache, in blocks, by number of workers."""
    torch.set_num_threads(1)
    register()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        size = [64, 64] if quick else CANVAS
        cfg = jobs_of(
            [*LARGE, f"dataset.frame_size={size}".replace(" ", ""), f"dataset.cache={folder}"]
        )[0].config
        source = build_source(cfg.dataset, "train", progress=True)
        for workers in WORKERS[: 1 if quick else None]:
            loader = BlockLoader(source, "bload_exact", batch_frames=SLOTS, num_workers=workers)
            began = time.perf_counter()
            batches = iter(loader)
            frames = int(next(batches).valid_BT.sum())
            first = time.perf_counter() - began
            began = time.perf_counter()
            frames = sum(int(batch.valid_BT.sum()) for batch in batches)
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
        for number, _ in enumerate(train_epoch(way.training, loader, epoch, sums)):
            if quick and number == 3:
                break
        found.append((sums["seconds"], sums["waiting"]))
    return found


READING = Part(
    ("workers", "s to the first block", "frames/s after it"), ("", ".2f", ",.0f"), measure_reading
)
WAITING = Part(
    ("workers", "frames from", "first epoch, s", "waited, %", "second epoch, s", "waited, %"),
    ("", "", ".1f", ".1f", ".1f", ".1f"),
    measure_waiting,
)
