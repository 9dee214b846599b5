"""Sets of up to 12 sequences: is ``bload_exact`` ever above the fewest blocks possible?

A plan at the lower bound is the optimum. For the others an independent search, branch and bound
over the sequences one by one, looks for a packing into one block less.
"""

import time

import numpy as np

from bload import make_plan
from experiments.benchmarks.part import Part, Rows

SETS, MOST = 100_000, 12
BLOCK_SIZES = (10, 30, 100, 1_000)


def draw(rng: np.random.Generator, t_max: int) -> np.ndarray:
    """One to `MOST` lengths, uniform between two bounds that are drawn too."""
    low, high = np.sort(rng.integers(1, t_max + 1, 2))
    lengths: np.ndarray = rng.integers(low, high + 1, rng.integers(1, MOST + 1))
    return lengths


def fits(lengths: list[int], blocks: int, t_max: int) -> bool:
    """True if lengths, descending, can be packed into so many blocks of `t_max`."""
    return _place(lengths, [t_max] * blocks, blocks * t_max - sum(lengths))


def _place(lengths: list[int], room_B: list[int], spare: int) -> bool:
    """Try the first length in each block; `spare` slots may stay empty in all."""
    if not lengths or spare < 0:
        return spare >= 0
    first, *rest = lengths
    for block, room in enumerate(room_B):
        if room < first or room in room_B[:block]:  # like an earlier one
            continue
        left = room - first
        wasted = left if rest and left < rest[-1] else 0  # nothing that is left fits there
        after = [*room_B[:block], left, *room_B[block + 1 :]]
        if _place(rest, after, spare - wasted):
            return True
    return False


def measure(quick: bool) -> Rows:
    """A row for each block size."""
    rows: Rows = []
    for t_max in BLOCK_SIZES:
        rng, counts = np.random.default_rng(t_max), np.zeros(3, dtype=np.int64)
        sets = (400 if quick else SETS) // len(BLOCK_SIZES)
        began = time.perf_counter()
        for seed in range(sets):
            lengths = draw(rng, t_max)
            plan = make_plan(lengths, "bload_exact", t_max, seed)
            at_bound = plan.blocks == plan.lower_bound
            above = not at_bound and fits(
                sorted(lengths.tolist(), reverse=True), plan.blocks - 1, t_max
            )
            counts += at_bound, not at_bound and not above, above
        rows.append([t_max, sets, *counts.tolist(), time.perf_counter() - began])
    return rows


SMALL = Part(
    ("T_max", "sets", "at the bound", "shown to be the optimum", "above the optimum", "s"),
    (",", ",", ",", ",", ",", ".0f"),
    measure,
)
