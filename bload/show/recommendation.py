"""The recommended size of a block: no sequence cut, and few slots empty on all ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bload.lengths import check_lengths
from bload.packing.packers import make_plan
from bload.packing.pieces import Long
from bload.packing.plan import Plan
from bload.schedule.balance import make_schedule

EMPTY = 0.02
"""Share of empty slots, padding and fillers, that is few enough."""
CUT = 0.01
"""Share of the sequences that may be split where nothing else helps."""
CUT_SAVES = 0.05
"""Share of the slots that splitting must save over the best size that splits nothing."""
MULTIPLES = (1, 2, 3, 4)
PARTS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Work:
    """Steps and slots of an epoch on all ranks, means over its plans."""

    steps: float
    slots: float
    """Frames, padding, fillers of the last step, and waiting for the fullest rank."""


def predict_work(plans: Sequence[Plan], ranks: int, batch_slots: int) -> Work:
    """Count the slots that ranks compute or wait for, before any training.

    It predicts time where a step takes as long as its slots, as in a recurrent model whose kernels
    are busy; overheads per step, reading and communication are not in it.

    Args:
        plans: of one loader, an epoch each.
        batch_slots: slots of a rank and step, rounded down to whole blocks, at least one.
    """
    loads = [make_schedule(plan, ranks, batch_slots).loads() for plan in plans]
    slots = [ranks * load_SR.max(axis=1).sum() for load_SR in loads]
    return Work(float(np.mean([len(load_SR) for load_SR in loads])), float(np.mean(slots)))


@dataclass(frozen=True, slots=True)
class Size:
    """Cost of a block size with `bload_exact`."""

    t_max: int
    steps: int
    empty: float
    """Share of the slots of all ranks that hold no frame: padding and fillers."""
    cut: int
    """Sequences that are longer, which ``long="split"`` cuts."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A block size, the option for longer sequences that it needs, and why."""

    t_max: int
    long: Long
    reason: str
    tried: tuple[Size, ...]
    """In the order in which they were tried; the first with few empty slots is taken."""


def recommend_t_max(
    lengths: ArrayLike, ranks: int = 1, batch_slots: int | None = None, seed: int = 0
) -> Recommendation:
    """Recommend a block size for `bload_exact`.

    The longest sequence is taken where at most 2 % of the slots are then empty. Otherwise small
    multiples of it are tried, which help where few sequences share a block, then fractions that
    cut at most 1 % of the sequences, which help where a few long sequences leave too few blocks
    for the ranks. Where none does, the one of least empty slots is taken; one that cuts sequences
    has to save 5 % of the slots.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        batch_slots: slots of a rank and step, and so the largest block; None takes one block of
            any size.
    """
    lengths = check_lengths(lengths)
    longest = int(lengths.max())
    if batch_slots is not None and batch_slots < longest:
        size = _size(lengths, batch_slots, ranks, batch_slots, seed)
        reason = (
            f"a rank takes {batch_slots:,} slots and the longest sequence has {longest:,} frames: "
            f"{size.cut:,} of {len(lengths):,} sequences are split, the state cleared at each cut"
        )
        return Recommendation(batch_slots, "split", reason, (size,))
    most = batch_slots or MULTIPLES[-1] * longest
    sizes = [n * longest for n in MULTIPLES if n * longest <= most]
    parts = [-(-longest // n) for n in PARTS]
    sizes += [t for t in parts if 0 < np.count_nonzero(lengths > t) <= CUT * len(lengths)]
    tried: list[Size] = []
    for t_max in sizes:
        tried.append(_size(lengths, t_max, ranks, batch_slots or t_max, seed))
        if tried[-1].empty <= EMPTY:
            break
    few = tried[-1].empty <= EMPTY
    best = tried[-1] if few else min(tried, key=lambda s: s.empty + (CUT_SAVES if s.cut else 0))
    return Recommendation(
        best.t_max,
        "split" if best.cut else "error",
        _reason(best, tried[0], len(lengths), ranks),
        tuple(tried),
    )


def _size(lengths: np.ndarray, t_max: int, ranks: int, batch_slots: int, seed: int) -> Size:
    plan = make_plan(lengths, "bload_exact", t_max, seed, long="split")
    work = predict_work([plan], ranks, batch_slots)
    cut = int(np.count_nonzero(lengths > t_max))
    return Size(t_max, int(work.steps), 1 - plan.placed / work.slots, cut)


def _reason(best: Size, whole: Size, sequences: int, ranks: int) -> str:
    on = f"on {ranks:,} rank{'s' if ranks > 1 else ''}"
    empty = f"{best.empty:.1%} of the slots are empty {on}"
    more = f"{whole.empty:.1%} at the longest sequence, {whole.t_max:,}"
    if best.cut:
        reason = (
            f"{empty}, against {more}; for this {best.cut:,} of {sequences:,} sequences are split, "
            "the state cleared at each cut"
        )
    elif best.t_max > whole.t_max:
        reason = (
            f"{best.t_max // whole.t_max} times the longest sequence, so that more of them share a "
            f"block: {empty}, against {more}"
        )
    else:
        reason = f"the longest sequence, so that none is cut, and {empty}"
    if best.empty > EMPTY:
        reason += ", the best found; more sequences or fewer ranks would leave fewer empty"
    return reason
