"""Frames a second of all loaders, which take turns with one network.

The batches of a turn are assembled before its clock starts; the copy to the device is in the time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from statistics import geometric_mean

import torch

from bload import Batch, BlockLoader
from experiments.card.bench import Bench
from experiments.card.record import Row, Unit
from experiments.card.scale import LOADERS, Subject
from training.build import Training
from training.memory import peak_memory_mib, reset_peak_memory
from training.step import train_step


@dataclass
class Turns:
    """A loader, and what its turns took."""

    name: str
    loader: BlockLoader
    batches: Iterator[list[Batch]]
    slots: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

    @property
    def frames_per_s(self) -> list[float]:
        """Of every turn: slots a second, times the epoch's frames per slot.

        A few steps may hold more or fewer frames than is usual; an epoch does not.
        """
        account = self.loader.account
        share = account.frames / account.processed
        return [share * slots / took for slots, took in zip(self.slots, self.seconds, strict=True)]


def units(bench: Bench) -> list[Unit]:
    """One for each network and setting."""
    return [
        (
            f"{subject.model}, {'compiled' if compiled else 'eager'}, recompute {recompute}",
            partial(loader_rows, bench, subject, compiled, recompute),
        )
        for compiled, recompute in bench.scale.settings
        for subject in bench.scale.subjects
    ]


def loader_rows(bench: Bench, subject: Subject, compiled: bool, recompute: str) -> list[Row]:
    """A row for each loader; a single one if a step does not fit into memory."""
    setting = {"model": subject.model, "compiled": compiled, "recompute": recompute}
    try:
        rows = measured(bench, subject, compiled, recompute)
    except torch.OutOfMemoryError:
        rows = [{"out_of_memory": True}]
    return [setting | row for row in rows]


def measured(bench: Bench, subject: Subject, compiled: bool, recompute: str) -> list[Row]:
    """The figures of each loader; memory may run out."""
    began = time.perf_counter()
    training = bench.training(subject, recompute, compiled)
    loaders = [(name, bench.loader(subject, name)) for name in LOADERS]
    ways = [Turns(name, loader, loader.by_step()) for name, loader in loaders]
    for way in ways:  # new shapes are compiled, and memory is allocated
        take(bench, training, way, 1)
    first_s = time.perf_counter() - began
    for way in ways:
        way.slots, way.seconds, way.peak_mib = [], [], 0.0
    for _ in range(bench.scale.rounds):
        for way in ways:
            take(bench, training, way, bench.scale.steps)
    return [row_of(bench, subject, way, ways[-1]) | {"first_s": first_s} for way in ways]


def take(bench: Bench, training: Training, way: Turns, steps: int) -> None:
    """Take a turn of so many steps; its batches are assembled before."""
    batches = list(islice(way.batches, steps))
    reset_peak_memory(bench.device)
    bench.wait()
    began = time.perf_counter()
    for number, step in enumerate(batches):
        train_step(training, step, 0, number, way.loader.steps)
    bench.wait()
    way.seconds.append(time.perf_counter() - began)
    way.slots.append(sum(batch.valid_BT.numel() for step in batches for batch in step))
    way.peak_mib = max(way.peak_mib, peak_memory_mib(bench.device))


def row_of(bench: Bench, subject: Subject, way: Turns, reference: Turns) -> Row:
    """What is known and measured of a loader.

    A backward pass counts as two forward ones, and what is recomputed does not count.
    """
    rates, account = way.frames_per_s, way.loader.account
    beside = [mine / other for mine, other in zip(rates, reference.frames_per_s, strict=True)]
    flops_per_s = 3 * bench.flops(subject) * sum(way.slots) / sum(way.seconds)
    return {
        "loader": way.name,
        "padded": account.padding,
        "deleted": account.deleted,
        "frames_per_s": rates,
        "of_bload_exact": geometric_mean(beside),
        "share_of_peak": flops_per_s / bench.peak.value,
        "peak_gib": way.peak_mib / 2**10,
    }
