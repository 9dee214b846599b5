"""The longest block that a training step fits into memory with."""

from collections.abc import Callable
from functools import partial

import torch

from experiments.card.bench import Bench
from experiments.card.record import Row, Unit
from experiments.card.scale import RECOMPUTED, Subject
from training.fit import batches_of
from training.memory import peak_memory_mib, reset_peak_memory
from training.step import train_step

FIRST = 16
"""Slots that are tried first, doubled while they fit."""
PRECISION = 0.05
"""The answer is at most this share below the least that does not fit."""


def units(bench: Bench) -> list[Unit]:
    """One for each network and choice of what is recomputed."""
    return [
        (f"{subject.model}, recompute {choice}", partial(block_rows, bench, subject, choice))
        for subject in bench.scale.subjects
        for choice in RECOMPUTED
    ]


def block_rows(bench: Bench, subject: Subject, recompute: str) -> list[Row]:
    """One row: the longest block, the peak with it, and what did not fit."""
    peaks: dict[int, float] = {}

    def fits(slots: int) -> bool:
        peak = peak_of(bench, subject, recompute, slots)
        if peak:
            peaks[slots] = peak
        bench.release()
        return bool(peak)

    largest, refused = longest(fits, subject.most_slots)
    row = {"model": subject.model, "recompute": recompute, "peak_gib": peaks.get(largest)}
    return [row | {"slots": largest, "refused": refused}]


def longest(fits: Callable[[int], bool], most: int | None) -> tuple[int, int | None]:
    """The most slots that fit, and the fewest known not to: doubling, then bisection.

    More than `most` are not tried, and None are known not to fit if these do. 0 fit if `FIRST` do
    not.
    """
    low, high = 0, FIRST
    while fits(high):
        if high == most:
            return high, None
        low, high = high, min(2 * high, most or 2 * high)
    while low and high - low > max(1, PRECISION * high):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low, high


def peak_of(bench: Bench, subject: Subject, recompute: str, slots: int) -> float | None:
    """GiB that a step takes on one full block of so many slots; None if it does not fit."""
    try:
        training = bench.training(subject, recompute)
        (batch,) = batches_of(bench.source(subject), [(1, slots, 1.0)])
        reset_peak_memory(bench.device)
        for step in range(2):  # the optimiser's moments come with the first
            train_step(training, [batch], 0, step, 2)
        bench.wait()
    except torch.OutOfMemoryError:
        return None
    return peak_memory_mib(bench.device) / 2**10
