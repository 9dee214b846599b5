"""Recommended block size: no sequence is cut, and few slots are empty on all ranks."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bload.errors import plural
from bload.lengths import check_lengths
from bload.packing.packers import make_plan
from bload.packing.plan import Plan
from bload.schedule.balance import make_schedule

MAX_EMPTY = 0.02
"""Largest accepted share of empty slots, padding and fillers."""
MULTIPLES = (1, 2, 3, 4)
"""Block sizes that are tried, in longest lengths."""


class Work(NamedTuple):
    """Steps and slots of an epoch on all ranks, averaged over its plans."""

    steps: float
    slots: float
    """Frames, padding, fillers of the last step, and waiting for the fullest rank."""


def predict_work(plans: Sequence[Plan], ranks: int, batch_slots: int) -> Work:
    """Count the slots that ranks compute or wait for, before any training.

    The count predicts time if a step takes as long as its slots. It leaves out overheads per step,
    reading and communication. `batch_slots` per rank and step are rounded down to whole blocks.
    """
    loads = [make_schedule(plan, ranks, batch_slots).loads() for plan in plans]
    slots = [ranks * load_SR.max(axis=1).sum() for load_SR in loads]
    return Work(float(np.mean([len(load_SR) for load_SR in loads])), float(np.mean(slots)))


class Recommendation(NamedTuple):
    """Block size for `bload_exact`, and its cost."""

    t_max: int
    empty: float
    """Share of slots without a frame, padding and fillers, over all ranks."""
    fillers: float
    """Share of slots in fillers, which complete the last step."""
    ranks: int

    def __str__(self) -> str:
        return textwrap.fill(
            f"recommended for bload_exact on {plural(self.ranks, 'rank')}: T_max "
            f"{self.t_max:,}; {100 * self.empty:.1f} % of the slots are empty then, "
            f"{100 * self.fillers:.1f} % in fillers. Assumed: time grows with slots, and a block "
            "of that size fits into memory.",
            100,
        )


def recommend_t_max(
    lengths: ArrayLike, ranks: int = 1, batch_slots: int | None = None, seed: int = 0
) -> Recommendation:
    """Recommend a block size for `bload_exact`.

    The longest length is taken if it leaves at most 2 % of the slots empty. Otherwise, small
    multiples of it are tried, which help if few sequences share a block. If none is accepted, the
    size with the fewest empty slots is taken.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        batch_slots: slots per rank and step, which also limit the multiples; None takes one block
            of any size.
    """
    lengths = check_lengths(lengths)
    longest = int(lengths.max())
    tried: list[Recommendation] = []
    for t_max in [n * longest for n in MULTIPLES]:
        if tried and batch_slots and t_max > batch_slots:
            break
        plan = make_plan(lengths, "bload_exact", t_max, seed)
        slots = predict_work([plan], ranks, batch_slots or t_max).slots
        empty, fillers = 1 - plan.placed / slots, 1 - plan.processed / slots
        tried.append(Recommendation(t_max, empty, fillers, ranks))
        if empty <= MAX_EMPTY:
            return tried[-1]
    return min(tried, key=lambda advice: advice.empty)
