"""Balance: how evenly can the work of a step be spread over ranks?

    python train.py experiment=balance               # one after another
    python -m experiments.balance                       # 10 s on one core
    python -m experiments.balance --lengths FILE.csv    # your own, as `python -m bload table` reads
    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 -m experiments.balance --measure \\
        dataset.cache=data/cache64                      # half an hour on two cores

A step lasts as long as its slowest rank. The first table is counted, without reading frames: the
time of an epoch over that of the same work, without fillers, spread evenly over all ranks in every
step; 1 is perfect. Blocks are packed by bload_exact. A block costs its slots plus the squared
lengths in it over `T_max`, like attention by kernels that skip masked parts. `Spread` is the loss
in randomness: the standard deviation over steps of the mean cost of their blocks, divided by that
of random steps; 1 is as random, 3 means that a step's blocks are alike.

The second table is measured in training, in turns: the processor seconds of the busier rank over
the mean, beside the imbalance that the same plans predict.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from bload import (
    Cost,
    Plan,
    Schedule,
    action_genome_lengths,
    make_plan,
    make_schedule,
    read_lengths,
)
from bload.schedule.balance import BALANCES
from experiments.interleaved import Way, jobs_of, on_ranks, take_turns, turn_options
from experiments.study import markdown, measuring
from training.ranks import Ranks

BLOCKS = (1, 4)
"""Blocks per rank and step, each a batch."""
TAIL = 20_000
"""Sequences of the long tail, lognormal(6.0, 1.3) within 1 to 8,192."""


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and balance, which take turns on these ranks."""
    ways = [Way(job, ranks) for job in jobs_of("balance", overrides)]
    rows = []
    for way, turns in zip(ways, take_turns(ways, share, rounds), strict=True):
        busy_RS = np.array(ranks.gather([busy for turn in turns for busy in turn.busy]))
        steps, sampler = busy_RS.shape[1], way.loader.sampler
        rows.append(
            {
                "loader": way.cfg.loader.name,
                "balance": way.cfg.loader.balance,
                "ranks": ranks.world_size,
                "steps": steps,
                "predicted": _over_mean(sampler.schedule.loads(sampler.cost)[:steps]),
                "measured": _over_mean(busy_RS.T),
            }
        )
    return rows


def _over_mean(work_SR: np.ndarray) -> float:
    return float(work_SR.max(axis=1).sum() / work_SR.mean(axis=1).sum())


def _deal(plan: Plan, ranks: int, blocks: int, how: str, cost: Cost) -> Schedule:
    rng = np.random.default_rng([0, 0, 1])
    return make_schedule(plan, ranks, micro_batches=blocks, balance=how, cost=cost, rng=rng)


def delays(plan: Plan, ranks: int) -> str:
    """How many steps later `queue` trains the costliest 30 % of the blocks."""
    cost, rows = Cost(slot=1, pair=1 / plan.t_max), []
    cost_B = cost.of_blocks(plan)
    for on, blocks in ((ranks, 1), (ranks, 4), (2, 1)):
        none_B, queue_B = (_steps(_deal(plan, on, blocks, how, cost)) for how in ("none", "queue"))
        later = (queue_B - none_B)[cost_B >= np.quantile(cost_B, 0.7)]
        rows.append([on, blocks, queue_B.max() + 1, f"{later.mean():.1f}", later.max()])
    heads = ["ranks", "blocks per rank and step", "steps", "steps later, mean", "most"]
    return markdown(rows, heads, words=0)


def _steps(schedule: Schedule) -> np.ndarray:
    """The step of every block."""
    step_B = np.zeros(schedule.plan.blocks, dtype=int)
    for step in range(schedule.steps):
        block = schedule.blocks_of_step(step)
        step_B[block[block >= 0]] = step
    return step_B


def _spread(schedule: Schedule, cost: Cost) -> float:
    """Return the standard deviation over full steps of the mean cost of a step's blocks."""
    count = np.array([(schedule.blocks_of_step(step) >= 0).sum() for step in range(schedule.steps)])
    return float(schedule.loads(cost).sum(axis=1)[count == count.max()].std())


def plans_of(file: str) -> dict[str, Plan]:
    """Pack the lengths of a file, or without one Action Genome's and a long tail."""
    if file:
        return {Path(file).stem: make_plan(read_lengths(file), "bload_exact")}
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, TAIL)
    tail = np.clip(drawn.round(), 1, 8192).astype(np.int64)
    named = {"Action Genome": action_genome_lengths(), "long tail": tail}
    return {name: make_plan(lengths, "bload_exact") for name, lengths in named.items()}


def counted_table(plans: dict[str, Plan], ranks: int) -> str:
    """Tabulate time over ideal and spread of every balance, a column for each plan."""
    cells = []
    for blocks, how in product(BLOCKS, BALANCES):
        over, spread = [], []
        for plan in plans.values():
            cost = Cost(slot=1, pair=1 / plan.t_max)
            schedule, random = (_deal(plan, ranks, blocks, one, cost) for one in (how, "none"))
            work = cost.of_blocks(plan).sum()
            over.append(f"{schedule.loads(cost).max(axis=1).sum() * ranks / work:.3f}")
            spread.append(f"{_spread(schedule, cost) / (_spread(random, cost) or 1):.2f}")
        cells.append([blocks, f"`{how}`", *over, *spread])
    heads = ["blocks per rank and step", "`loader.balance`", *plans]
    return markdown(cells, [*heads, *(f"spread, {name}" for name in plans)], words=2)


def tables(rows: pd.DataFrame, lengths: str, ranks: int) -> str:
    """Format the counted and the measured table; for the lengths of a file only the first."""
    plans = plans_of(lengths)
    name, plan = next(iter(plans.items()))
    counted = (
        f"{counted_table(plans, ranks)}\n\nSteps by which `queue` trains the costliest 30 % of the "
    )
    counted += f"blocks of {name} later than `none`:\n\n{delays(plan, ranks)}"
    return counted if lengths else f"{counted}\n\n{measured_table(rows)}"


def measured_table(rows: pd.DataFrame) -> str:
    cells = [
        [row.loader, f"`{row.balance}`", row.steps, f"{row.predicted:.3f}", f"{row.measured:.3f}"]
        for row in rows.itertuples()
    ]
    return markdown(
        cells, ["loader", "`loader.balance`", "steps", "predicted", "measured"], words=2
    )


if __name__ == "__main__":
    shown = {"lengths": ("", "file to count for instead"), "ranks": (8, "to count for")}
    measuring("balance", __doc__, on_ranks(measure), tables, turn_options(0.05, 4), shown=shown)
