"""Balance: how evenly can the work of a step be spread over ranks?

    python -m experiments.balance                           # 10 s on one core
    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 -m experiments.balance --measure \\
        dataset.cache=data/cache64                          # half an hour on two cores

The first tables are counted, without reading frames, for your own lengths too by ``python -m
experiments.lengths --lengths FILE``. The last is measured in training, in turns: the processor
seconds of the busier rank over the mean, beside the imbalance that the same plans predict.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from bload import Cost, Plan, Schedule, action_genome_lengths, make_plan, make_schedule
from bload.schedule.balance import BALANCES
from experiments.interleaved import on_ranks, sweep_jobs, take_turns, turn_options
from experiments.study import markdown, report_rows
from training.ranks import Ranks

BLOCKS = (1, 4)
"""Blocks per rank and step, each a batch."""
RANKS, TAIL = 8, 20_000
"""Ranks to count for; sequences of the long tail, lognormal(6.0, 1.3) within 1 to 8,192."""


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and balance, which take turns on these ranks."""
    rows = []
    for contender, turns in take_turns(sweep_jobs("balance", overrides), ranks, share, rounds):
        busy_RS = np.array(ranks.gather([busy for turn in turns for busy in turn.busy]))
        steps, sampler = busy_RS.shape[1], contender.loader.sampler
        rows.append(
            {
                "loader": contender.cfg.loader.name,
                "balance": contender.cfg.loader.balance,
                "ranks": ranks.world_size,
                "steps": steps,
                "predicted": over_mean(sampler.schedule.loads(sampler.cost)[:steps]),
                "measured": over_mean(busy_RS.T),
            }
        )
    return rows


def over_mean(work_SR: np.ndarray) -> float:
    """Return the work of the busiest rank of each step over that of the mean rank."""
    return float(work_SR.max(axis=1).sum() / work_SR.mean(axis=1).sum())


def block_cost(plan: Plan) -> Cost:
    return Cost(slot=1, pair=1 / plan.t_max)


def deal(plan: Plan, ranks: int, blocks: int, balance: str) -> Schedule:
    """Schedule a plan, with so many blocks per rank and step."""
    rng, cost = np.random.default_rng([0, 0, 1]), block_cost(plan)
    return make_schedule(plan, ranks, micro_batches=blocks, balance=balance, cost=cost, rng=rng)


def spread(schedule: Schedule) -> float:
    """Return the standard deviation over full steps of the mean cost of a step's blocks."""
    count = np.array([(schedule.blocks_of_step(step) >= 0).sum() for step in range(schedule.steps)])
    loads_SR = schedule.loads(block_cost(schedule.plan))
    return float(loads_SR.sum(axis=1)[count == count.max()].std())


def step_of_block(schedule: Schedule) -> np.ndarray:
    """Return the step of every block."""
    step_B = np.zeros(schedule.plan.blocks, dtype=int)
    for step in range(schedule.steps):
        block = schedule.blocks_of_step(step)
        step_B[block[block >= 0]] = step
    return step_B


def counted_table(plans: dict[str, Plan], ranks: int = RANKS) -> str:
    """Tabulate time over ideal and spread of every balance, a column for each plan."""
    rows = []
    for blocks, balance in product(BLOCKS, BALANCES):
        over_ideal, spreads = [], []
        for plan in plans.values():
            cost = block_cost(plan)
            schedule, random = (deal(plan, ranks, blocks, name) for name in (balance, "none"))
            seconds = schedule.loads(cost).max(axis=1).sum()
            over_ideal.append(f"{seconds * ranks / cost.of_blocks(plan).sum():.3f}")
            spreads.append(f"{spread(schedule) / (spread(random) or 1):.2f}")
        rows.append([blocks, f"`{balance}`", *over_ideal, *spreads])
    heads = ["blocks per rank and step", "`loader.balance`", *plans]
    return markdown(rows, [*heads, *(f"spread, {name}" for name in plans)], words=2)


def delay_table(plan: Plan) -> str:
    """Tabulate how many steps later `queue` trains the costliest 30 % of the blocks."""
    cost_B, rows = block_cost(plan).of_blocks(plan), []
    for ranks, blocks in ((RANKS, 1), (RANKS, 4), (2, 1)):
        step_B, queue_B = (step_of_block(deal(plan, ranks, blocks, n)) for n in ("none", "queue"))
        later = (queue_B - step_B)[cost_B >= np.quantile(cost_B, 0.7)]
        rows.append([ranks, blocks, queue_B.max() + 1, f"{later.mean():.1f}", later.max()])
    heads = ["ranks", "blocks per rank and step", "steps", "steps later, mean", "most"]
    return markdown(rows, heads, words=0)


def measured_table(rows: pd.DataFrame) -> str:
    """Tabulate the imbalance of training beside the predicted one."""
    cells = [
        [row.loader, f"`{row.balance}`", row.steps, f"{row.predicted:.3f}", f"{row.measured:.3f}"]
        for row in rows.itertuples()
    ]
    heads = ["loader", "`loader.balance`", "steps", "predicted", "measured"]
    return markdown(cells, heads, words=2)


def tables(rows: pd.DataFrame) -> str:
    """Tabulate what is counted for Action Genome and for a long tail, and what was measured."""
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, TAIL)
    tail = np.clip(drawn.round(), 1, 8192).astype(np.int64)
    named = {"Action Genome": action_genome_lengths(), "long tail": tail}
    plans = {name: make_plan(lengths, "bload_exact") for name, lengths in named.items()}
    sentence = (
        "Steps by which `queue` trains the costliest 30 % of the blocks of Action Genome later"
    )
    parts = [counted_table(plans), f"{sentence} than `none`:", delay_table(plans["Action Genome"])]
    parts += [f"Measured on {rows.ranks.max()} ranks:", measured_table(rows)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    report_rows("balance", __doc__, on_ranks(measure), tables, turn_options(0.05, 4))
