"""Frames a second and operator calls of training steps, whose ways take turns."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bload import Batch
from experiments.benchmarks.part import Part, Rows
from experiments.config import register
from experiments.engine import backward, train_step
from experiments.sweep import jobs_of
from experiments.turns import Way

DATA = ["loader=bload_exact", "dataset.cache=data/cache64"]
ROUNDS, STEPS = 6, 5
BATCHES = (94, 376)
"""Slots of a step: one block and four, for the table of the walk."""


class CallCounter(TorchDispatchMode):
    """Counts the operators that are called within it, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))


def calls_of_step(way: Way, batches: Sequence[Batch]) -> int:
    """Operators of the forward and backward passes of a step; views count."""
    with CallCounter() as counter:
        backward(way.training, batches, 0)
    return sum(counter.calls.values())


def build_way(*overrides: str, workers: int = 0) -> Way:
    """A network of its own on the synthetic data, with the values of the first run otherwise."""
    return Way(jobs_of([*DATA, *overrides])[0].config, workers=workers)


def measure_walk(quick: bool) -> Rows:
    """Temporal parts, walked slot by slot and with segments side by side."""
    torch.set_num_threads(1)
    register()
    rows: Rows = []
    for slots in BATCHES[: 1 if quick else None]:
        names = [(t, w) for t in ("dds", "gru") for w in ("slots", "segments")]
        names += [("attention", ""), ("scan", ""), ("none", "")]
        ways = [
            build_way(
                f"train.batch_frames={slots}",
                f"model.temporal={temporal}",
                *([f"model.walk={walk}"] if walk else []),
            )
            for temporal, walk in names
        ]
        rates = _rates(ways, 1 if quick else ROUNDS)
        for (temporal, walk), way, rate in zip(names, ways, rates, strict=True):
            calls = calls_of_step(way, next(iter(way.loader.by_step())))
            rows.append([slots, temporal, walk, rate, rate / rates[0], calls])
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
    """Steps of the loader beside steps on full blocks that lie in memory, and without resets."""
    torch.set_num_threads(1)
    register()
    usual, slots = build_way(workers=1), build_way("model.walk=slots")
    without = build_way("model.walk=slots", "train.starts=ignored")
    ready = [batches for batches in islice(usual.loader.by_step(), STEPS) if _is_full(batches)]
    jobs = [
        ("bload_exact, a worker reads, as in training", lambda: _through_loader(usual)),
        ("full blocks that lie in memory", lambda: _on_ready(usual, ready)),
        ("these, walked slot by slot", lambda: _on_ready(slots, ready)),
        ("these, without resets", lambda: _on_ready(without, ready)),
    ]
    totals = [[0.0, 0.0] for _ in jobs]
    for _ in range(1 if quick else ROUNDS):
        for total, (_, take) in zip(totals, jobs, strict=True):
            frames, seconds = take()
            total[0] += frames
            total[1] += seconds
    rates = [frames / seconds for frames, seconds in totals]
    base = (1, 1, 1, 2)  # the row that each is compared with
    return [
        [name, rate, rate / rates[of]]
        for (name, _), rate, of in zip(jobs, rates, base, strict=True)
    ]


def _is_full(batches: Sequence[Batch]) -> bool:
    return all(bool(batch.valid_BT.all()) for batch in batches)


def _through_loader(way: Way) -> tuple[float, float]:
    taken = way.take(STEPS)
    return sum(step.frames for step in taken), sum(step.seconds for step in taken)


def _on_ready(way: Way, ready: Sequence[Sequence[Batch]]) -> tuple[float, float]:
    began = time.perf_counter()
    for batches in ready:
        train_step(way.training, batches, 0, 0, STEPS)
    return sum(batches[0].step_frames for batches in ready), time.perf_counter() - began


WALK = Part(
    ("slots", "memory", "walk", "frames/s", "of the first", "operator calls"),
    (",", "", "", ",.0f", ".2f", ","),
    measure_walk,
)
BLOCKS = Part(
    ("steps on", "frames/s", "of full blocks; the last of the one above"),
    ("", ",.0f", ".3f"),
    measure_blocks,
)
