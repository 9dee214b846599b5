"""Seconds, memory, blocks and randomness of plans."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bload import make_plan
from bload.decreasing import best_fit_decreasing
from bload.pieces import whole_pieces
from bload.plan import Plan
from bload.randomness import partner_information, repeat_share
from experiments.benchmarks.cases import Case, hard_cases, usual_cases
from experiments.benchmarks.flow_bound import flow_bound
from experiments.benchmarks.part import Part, Rows
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory

CPU = torch.device("cpu")
REPEATS = {10_000: 1_000, 200_000: 5, 2_000_000: 3}
"""Times that a plan of up to so many sequences is made, with other seeds; else once."""
MOST_PAIRS = 200_000
"""Sequences up to which randomness is measured."""


@dataclass
class Timed:
    """Plans of one set of lengths, with other seeds."""

    seconds: list[float]
    mib: float
    """The most memory above the lengths."""
    above: int
    """The most blocks above the bound."""
    plans: list[Plan]
    """The last two."""


def timed_plans(case: Case, packer: str, times: int) -> Timed:
    seconds, peak, above, plans = [], 0.0, 0, list[Plan]()
    for seed in range(times):
        plans = plans[-1:] if len(case.lengths) <= MOST_PAIRS else []
        trim_memory()
        before = taken_memory(CPU) / 2**20
        reset_peak_memory(CPU)
        began = time.perf_counter()
        plans.append(make_plan(case.lengths, packer, t_max=case.t_max, seed=seed, long=case.long))
        seconds.append(time.perf_counter() - began)
        peak = max(peak, peak_memory_mib(CPU) - before)
        above = max(above, plans[-1].blocks - plans[-1].lower_bound)
    return Timed(seconds, peak, above, plans)


def randomness(plans: Sequence[Plan]) -> tuple[float | None, float | None]:
    """Share of pairs that meet again, and information of partners, of the last two plans."""
    if len(plans) < 2:
        return None, None
    return repeat_share(plans[0], plans[1]), partner_information(list(plans))


def measure_usual(quick: bool) -> Rows:
    """A row for each set of lengths and packer."""
    rows: Rows = []
    for case in usual_cases(10_000 if quick else 10_000_000):
        for packer in ("bload", "bload_exact"):
            times = next((n for most, n in REPEATS.items() if len(case.lengths) <= most), 1)
            made = timed_plans(case, packer, 2 if quick else times)
            figures = statistics.median(made.seconds), made.mib, made.above, made.plans[-1].padding
            rows.append([case.name, packer, *figures, *randomness(made.plans)])
            del made
    return rows


def measure_hard(quick: bool) -> Rows:
    """A row for each hard set, with its bounds and the blocks above the first of two packers."""
    rows: Rows = []
    for case in hard_cases()[: 2 if quick else None]:
        made = timed_plans(case, "bload_exact", 1 if quick else 5)
        sizes = whole_pieces(case.lengths, case.t_max, case.long)[2]
        decreasing = best_fit_decreasing(sizes, case.t_max, np.random.default_rng(0))[1]
        bound = made.plans[-1].lower_bound
        above = made.above, decreasing - bound
        least = flow_bound(sizes, case.t_max)
        rows.append([case.name, len(sizes), bound, least, *above, max(made.seconds)])
    return rows


USUAL = Part(
    ("lengths", "packer", "s", "MiB", "above the bound", "empty", "repeat", "partner"),
    ("", "", ".4f", ",.0f", ",", ",", ".5f", ".4f"),
    measure_usual,
)
HARD = Part(
    ("lengths", "pieces", "bound", "linear program", "above bound", "best-fit decreasing", "s"),
    ("", ",", ",", ",", ",", ",", ".2f"),
    measure_hard,
)
