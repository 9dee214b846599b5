"""Balance: how evenly can the work of a step be spread over ranks, and does it cost learning?

    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 -m experiments.balance --measure \\
        dataset.cache=data/cache64                          # half an hour on two cores
    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 train.py experiment=balance_learning
    python -m experiments.balance                           # all tables
    python -m experiments.balance FOLDER                    # the last one, of runs of your own

The first tables are counted, without reading frames, for your own lengths too by ``python -m
experiments.lengths --lengths FILE``. The third is measured in training, in turns: the processor
seconds of the busier rank over the mean, beside the imbalance that the same plans predict. The last
is of runs: `window` and `queue` bring blocks of like cost into one step, while `pairs` and `counts`
share out the random steps of `none` (dev/LOG.md, "The headline, again").
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from bload import Cost, Plan, action_genome_lengths, make_plan
from bload.schedule.balance import BALANCES, make_schedule
from bload.schedule.schedule import Schedule
from experiments import study
from experiments.interleaved import on_ranks, sweep_jobs, take_turns
from experiments.intervals import student
from experiments.runs import name_splits, read_runs
from training.ranks import Ranks

RANKS = 8
"""Ranks to count for, with one block per rank and step or four."""
LEARNED = ["none", "window", "queue"]


def measure(ranks: Ranks, overrides: Sequence[str]) -> list[dict]:
    """Return a row for each loader and balance; 4 turns of each take 5 % of its epoch."""
    rows = []
    for contender, turns in take_turns(sweep_jobs("balance", overrides), ranks, 0.05, 4):
        busy_SR = np.array(ranks.gather([busy for turn in turns for busy in turn.busy])).T
        config, sampler = contender.cfg.loader, contender.loader.sampler
        row = {"loader": config.name, "balance": config.balance, "ranks": ranks.world_size}
        loads_SR = sampler.schedule.loads(sampler.epochs.cost)[: len(busy_SR)]
        for name, work_SR in (("predicted", loads_SR), ("measured", busy_SR)):
            row |= {name: float(work_SR.max(axis=1).sum() / work_SR.mean(axis=1).sum())}
        rows.append(row | {"steps": len(busy_SR)})
    return rows


def block_cost(plan: Plan) -> Cost:
    return Cost(slot=1, pair=1 / plan.t_max)


def deal(plan: Plan, ranks: int, blocks: int, balance: str) -> Schedule:
    """Schedule a plan, with so many blocks per rank and step."""
    rng, cost = np.random.default_rng([0, 0, 1]), block_cost(plan)
    return make_schedule(plan, ranks, micro_batches=blocks, balance=balance, cost=cost, rng=rng)


def blocks_of_steps(schedule: Schedule) -> list[np.ndarray]:
    """Return the blocks of every step, without fillers."""
    return [block[block >= 0] for block in map(schedule.blocks_of_step, range(schedule.steps))]


def spread(schedule: Schedule) -> float:
    """Return the standard deviation over full steps of the cost of a step's blocks."""
    cost_B, steps = block_cost(schedule.plan).of_blocks(schedule.plan), blocks_of_steps(schedule)
    full = max(map(len, steps))
    return float(np.std([cost_B[step].sum() for step in steps if len(step) == full]))


def counted_table(plans: dict[str, Plan], ranks: int = RANKS) -> str:
    """Tabulate time over ideal and spread of every balance, a column for each plan."""
    rows = []
    for blocks, balance in product((1, 4), BALANCES):
        over_ideal, spreads = [], []
        for plan in plans.values():
            schedule, random = (deal(plan, ranks, blocks, name) for name in (balance, "none"))
            seconds = schedule.loads(block_cost(plan)).max(axis=1).sum()
            ideal = block_cost(plan).of_blocks(plan).sum() / ranks
            over_ideal.append(f"{seconds / ideal:.3f}")
            spreads.append(f"{spread(schedule) / (spread(random) or 1):.2f}")
        rows.append([blocks, f"`{balance}`", *over_ideal, *spreads])
    heads = ["blocks per rank and step", "`loader.balance`", *plans]
    return study.markdown(rows, [*heads, *(f"spread, {name}" for name in plans)], words=2)


def delay_table(plan: Plan) -> str:
    """Tabulate how many steps later `queue` trains the costliest 30 % of the blocks."""
    cost_B, rows = block_cost(plan).of_blocks(plan), []
    costly = cost_B >= np.quantile(cost_B, 0.7)
    for ranks, blocks in ((RANKS, 1), (RANKS, 4), (2, 1)):
        step_2B = np.zeros((2, plan.blocks), dtype=int)
        for step_B, balance in zip(step_2B, ("none", "queue"), strict=True):
            for step, block in enumerate(blocks_of_steps(deal(plan, ranks, blocks, balance))):
                step_B[block] = step
        later = np.diff(step_2B, axis=0)[0][costly]
        rows.append([ranks, blocks, step_2B.max() + 1, f"{later.mean():.1f}", later.max()])
    heads = ["ranks", "blocks per rank and step", "steps", "steps later, mean", "most"]
    return study.markdown(rows, heads, words=0)


def tables(rows: pd.DataFrame) -> str:
    """Tabulate what is counted for Action Genome and for a long tail, and what was measured."""
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, 20_000)
    tail = np.clip(drawn.round(), 1, 8192).astype(np.int64)
    named = {"Action Genome": action_genome_lengths(), "long tail": tail}
    plans = {name: make_plan(lengths, "bload_exact") for name, lengths in named.items()}
    costly = "Steps by which `queue` trains the costliest 30 % of the blocks of Action Genome"
    parts = [counted_table(plans), f"{costly} later than `none`:"]
    parts += [delay_table(plans["Action Genome"]), f"Measured on {rows.ranks.max()} ranks:"]
    heads, measured = ["loader", "`loader.balance`", "steps", "predicted", "measured"], []
    for row in rows.itertuples():
        shares = (f"{share:.3f}" for share in (row.predicted, row.measured))
        measured.append([row.loader, f"`{row.balance}`", row.steps, *shares])
    return "\n\n".join([*parts, study.markdown(measured, heads, words=2)])


def learned_table(folder: Path) -> str:
    """Tabulate Recall@20 and the mean loss of the last tenth, and each minus `none`, by seed."""
    runs, rows = read_runs(folder), []
    for balance in LEARNED:
        seeds = runs[runs["loader.balance"] == balance]
        rows.append([f"`{balance}`", f"{seeds.all_steps.mean():,.0f}", len(seeds)])
        for key, digits in (("recall", 1), ("last_loss", 2)):
            table = runs.pivot_table(key, "train.seed", "loader.balance").reindex(columns=LEARNED)
            difference = student(table[balance] - table["none"]).text(digits, sign=True)
            rows[-1] += [student(seeds[key]).text(digits), difference * (balance != "none")]
    heads = ["`loader.balance`", "steps", "seeds", f"Recall@20, {name_splits(runs)}"]
    heads += ["minus `none`", "last loss", "minus `none`"]
    table = study.markdown([row for row in rows if row[2]], heads)
    missing = [balance for balance in LEARNED if balance not in {*runs["loader.balance"]}]
    return table + study.name_missing(missing)


@study.exit_on_input_error()
def main() -> None:
    parser, file = study.make_parser("balance", __doc__), study.RESULTS / "balance.csv"
    parser.add_argument("folder", type=Path, nargs="?", help="of runs")
    parser.add_argument("--measure", nargs="*", metavar="KEY=VALUE", help="measure, and write rows")
    args = parser.parse_args()
    if args.measure is not None:
        if not (rows := on_ranks(measure)(overrides=args.measure)):
            return
        study.write_rows(file, rows)
    if not args.folder:
        study.publish("balance", tables(study.read_rows(file)), committed=True)
    learned = learned_table(args.folder or study.RESULTS / "balance_learning")
    study.publish("balance_learning", learned, committed=not args.folder)


if __name__ == "__main__":
    main()
