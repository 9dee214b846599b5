"""Balance: how evenly can the work of a step be spread over ranks, and does it cost learning?

    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 train.py experiment=balance_learning
    python -m experiments.balance [FOLDER]

The first table is counted, without reading frames. The last is of runs: `window` and `queue` bring
blocks of like cost into one step, while `pairs` and `uneven` share out the random steps of `none`
(dev/LOG.md, "The headline, again").
"""

from itertools import product
from pathlib import Path

import numpy as np

from bload import Cost, Plan, action_genome_lengths, make_plan
from bload.schedule.balance import BALANCES, make_schedule
from experiments import study
from experiments.intervals import t_interval
from experiments.runs import name_splits, read_runs, refuse_mixtures

RANKS = 8
"""Ranks to count for, with one block per rank and step or four."""
LEARNED = ["none", "window", "queue"]


def deal(plan: Plan, ranks: int, blocks: int, balance: str) -> tuple[float, float]:
    """Schedule a plan, with so many blocks per rank and step.

    Returns the time of an epoch over that of the same work spread evenly over all ranks, and the
    standard deviation over full steps of the cost of a step's blocks.
    """
    rng, cost = np.random.default_rng([0, 0, 1]), Cost(slot=1, pair=1 / plan.t_max)
    options: dict = {"micro_batches": blocks, "balance": balance, "cost": cost, "rng": rng}
    schedule, cost_B = make_schedule(plan, ranks, **options), cost.of_blocks(plan)
    steps = [block[block >= 0] for block in map(schedule.blocks_of_step, range(schedule.steps))]
    full = max(map(len, steps))
    spread = np.std([cost_B[step].sum() for step in steps if len(step) == full])
    return schedule.loads(cost).max(axis=1).sum() * ranks / cost_B.sum(), float(spread)


def counted_table(plans: dict[str, Plan]) -> str:
    """Tabulate time over ideal and spread of every balance, a column for each plan."""
    rows = []
    for blocks, balance in product((1, 4), BALANCES):
        dealt = [deal(plan, RANKS, blocks, balance) for plan in plans.values()]
        random = [deal(plan, RANKS, blocks, "none") for plan in plans.values()]
        rows.append([blocks, f"`{balance}`", *(f"{over_ideal:.3f}" for over_ideal, _ in dealt)])
        pairs = zip(dealt, random, strict=True)
        rows[-1] += [f"{spread / (base or 1):.2f}" for (_, spread), (_, base) in pairs]
    heads = ["blocks per rank and step", "`loader.balance`", *plans]
    return study.markdown(rows, [*heads, *(f"spread, {name}" for name in plans)], words=2)


def learned_table(folder: Path) -> str:
    """Tabulate Recall@20 and the mean loss of the last tenth, and each minus `none`, by seed."""
    runs, rows = read_runs(folder), []
    loader = runs["loader.name"].mode()[0]
    runs = refuse_mixtures(runs[runs["loader.name"] == loader], "loader.balance")
    for balance in LEARNED:
        seeds = runs[runs["loader.balance"] == balance]
        rows.append([f"`{balance}`", f"{seeds.all_steps.mean():,.0f}", len(seeds)])
        for key, digits in (("recall", 1), ("last_loss", 2)):
            table = runs.pivot_table(key, "train.seed", "loader.balance").reindex(columns=LEARNED)
            difference = t_interval(table[balance] - table["none"]).text(digits, sign=True)
            rows[-1] += [t_interval(seeds[key]).text(digits), difference * (balance != "none")]
    heads = [f"`{loader}` with `loader.balance`", "steps", "seeds"]
    heads += [f"Recall@20, {name_splits(runs)}", "minus `none`", "last loss", "minus `none`"]
    table = study.markdown([row for row in rows if row[2]], heads)
    missing = [balance for balance in LEARNED if balance not in {*runs["loader.balance"]}]
    return table + study.name_missing(missing)


def tables(folder: Path) -> str:
    """Tabulate what is counted for Action Genome and a long tail, and what runs learned."""
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, 20_000)
    tail = np.clip(drawn.round(), 1, 8192).astype(np.int64)
    named = {"Action Genome": action_genome_lengths(), "long tail": tail}
    counted = counted_table({name: make_plan(named[name], "bload_exact") for name in named})
    return f"{counted}\n\n{learned_table(folder)}"


if __name__ == "__main__":
    study.report_runs("balance", __doc__, tables)
