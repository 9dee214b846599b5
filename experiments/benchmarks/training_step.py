"""Frames a second and operator calls of training steps, whose ways take turns."""

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import truediv
from statistics import median

import torch

from bload import Batch, BlockLoader
from datasets.build import build_source
from experiments.benchmarks.call_counter import CallCounter
from experiments.benchmarks.part import Part, Rows
from experiments.commands import jobs_of
from experiments.turns import Way
from models.temporal import PARTS
from training.config import register
from training.step import backward, train_step
from training.stopping import detach_worker

DATA = ["loader=bload_exact", "dataset.cache=data/cache64"]
ROUNDS, STEPS = 6, 5
BLOCKS_OF_STEP = (1, 4)
"""For the table of the walk."""


def calls_of_step(way: Way, batches: Sequence[Batch]) -> int:
    """Operators of the forward and backward passes of a step; views count."""
    with CallCounter() as counter:
        backward(way.training, batches, 0)
    return sum(counter.calls.values())


def build_way(*overrides: str) -> Way:
    """A network of its own on the synthetic data, with the values of the first run otherwise."""
    return Way(jobs_of([*DATA, *overrides])[0].config)


def measure_walk(quick: bool) -> Rows:
    """The temporal parts."""
    torch.set_num_threads(1)
    register()
    rows: Rows = []
    for blocks in BLOCKS_OF_STEP[: 1 if quick else None]:
        ways = [
            build_way(f"train.batch_frames={blocks * 94}", f"model.temporal={temporal}")
            for temporal in PARTS
        ]
        rates = _rates(ways, 1 if quick else ROUNDS)
        for temporal, way, rate in zip(PARTS, ways, rates, strict=True):
            calls = calls_of_step(way, next(iter(way.loader.by_step())))
            rows.append([blocks, temporal, rate, rate / rates[0], calls])
    return rows


def _rates(ways: Sequence[Way], rounds: int) -> list[float]:
    """Valid frames a second of each, all rounds together."""
    frames, seconds = [0] * len(ways), [0.0] * len(ways)
    for _ in range(rounds):
        for number, way in enumerate(ways):
            taken = way.take(STEPS)
            frames[number] += sum(step.frames for step in taken)
            seconds[number] += sum(step.seconds for step in taken)
    return [f / s for f, s in zip(frames, seconds, strict=True)]


def measure_blocks(quick: bool) -> Rows:
    """Steps on blocks as they come, and on the same blocks out of memory."""
    torch.set_num_threads(1)
    register()
    usual = build_way()
    loader = BlockLoader(
        build_source(usual.cfg.dataset, "train", progress=True),
        "bload_exact",
        batch_frames=usual.cfg.train.batch_frames,
        num_workers=1,
        worker_init_fn=detach_worker,
    )
    arriving = iter(loader.by_step())
    rates: dict[str, list[float]] = {}

    def train(name: str, way: Way, blocks: Iterable[Sequence[Batch]]) -> list[Sequence[Batch]]:
        taken = []
        began = time.perf_counter()
        for batches in blocks:
            train_step(way.training, batches, 0, 0, STEPS)
            taken.append(batches)
        frames = sum(batches[0].step_frames for batches in taken)
        rates.setdefault(name, []).append(frames / (time.perf_counter() - began))
        return taken

    for batches in islice(arriving, 2):  # the worker starts
        train_step(usual.training, batches, 0, 0, STEPS)
    for _ in range(1 if quick else 2 * ROUNDS):
        ready = train("as a worker reads them", usual, islice(arriving, STEPS))
        train("out of memory", usual, ready)
    names = list(rates)
    return [
        [name, median(rates[name]), median(map(truediv, rates[name], rates[names[1]]))]
        for name in names
    ]


WALK = Part(
    ("blocks", "memory", "frames/s", "of the first", "operator calls"),
    (",", "", ",.0f", ".2f", ","),
    measure_walk,
)
BLOCKS = Part(
    ("blocks of bload_exact", "frames/s", "ratio"),
    ("", ",.0f", ".3f"),
    measure_blocks,
)
