"""How evenly a deal spreads the work of a step over ranks, by simulation: no frame is read.

    python -m experiments.balance                       # Action Genome and a long tail, a minute
    python -m experiments.balance --lengths FILE.csv    # your own, as `python -m bload table` reads

A step lasts as long as its slowest rank. `over ideal` is the time of an epoch over that of the same
work, fillers left out, spread evenly over all ranks in every step; 1 is perfect. Blocks are packed
by bload_exact, and a block costs its slots and a share of the squared lengths in it, as attention
does by kernels that skip what they mask. Under a cost of slots alone full blocks are equal: there
is nothing to balance.

    python -m experiments.balance --measured            # trains on two gloo ranks, half an hour

With `--measured` the deals of `experiment=balance` take turns in training, on two ranks. A rank is
busy for the seconds of the processor that its process takes; measured and predicted imbalance, of
the busier rank over the mean, stand side by side.

What a deal costs in randomness stands beside it: `spread` is the standard deviation over steps of
the mean cost of their blocks, divided by that of random steps, on the second number of ranks; 1 is
as random, 3 says that a step's blocks are alike. The records are in runs/balance/balance.json and
runs/balance_measured/balance_measured.json; the figures to expect in results/balance.txt.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from bload import Cost, Plan, action_genome_lengths, deal, make_plan, read_lengths
from bload.dealing import DEALS
from experiments.commands import jobs_of
from experiments.measured import measure
from experiments.rank_pair import RANKS
from experiments.turns import Rows, Way, on_ranks, take_turns
from training.config import register
from training.ranks import Ranks

FULL: dict[str, Any] = {
    "lengths": [""],
    "ranks": [2, 8, 64, 512],
    "blocks": [1, 4],
    "squares": [1.0, 4.0],
    "sequences": 20_000,
    "seed": 0,
    "measured": False,
    "rounds": 6,
    "share": 0.1,
    "overrides": ["dataset.cache=data/cache64"],
}
QUICK = {
    "ranks": [2, 8],
    "squares": [1.0],
    "sequences": 3000,
    "rounds": 2,
    "overrides": ["dataset.train_videos=200", "dataset.test_videos=30", "dataset.image_size=32"],
}
TEXTS = {
    "lengths": "files of lengths; none takes Action Genome's and a long tail",
    "ranks": "numbers of ranks",
    "blocks": "batches of a rank and step, of a block each",
    "squares": "a block costs T_max + this times the squared lengths in it / T_max",
    "sequences": "of the long tail, lognormal(6.0, 1.3) within 1 to 8,192",
    "seed": "of the long tail, the plan and the deals",
    "measured": "train the deals of experiment=balance on two ranks, instead of the simulation",
    "rounds": "turns of each deal, if measured",
    "share": "of each epoch that is trained in all rounds, if measured",
    "overrides": "of the config of experiment=balance, if measured",
}


def run(
    lengths: list[str],
    ranks: list[int],
    blocks: list[int],
    squares: list[float],
    sequences: int,
    seed: int,
    measured: bool,
    rounds: int,
    share: float,
    overrides: list[str],
) -> dict[str, Any]:
    """Simulate every row, print a table for each distribution and return the rows."""
    if measured:
        rows = on_ranks(
            RANKS, partial(train_deals, overrides=overrides, share=share, rounds=rounds)
        )
        print(tabulate(rows, "keys", floatfmt=".3f"))
        return {"rows": rows}
    rows = []
    for name, plan in _plans([one for one in lengths if one], sequences, seed):
        mine = []
        for square in squares:
            cost = Cost(slot=1, pair=square / plan.t_max)
            for each in blocks:
                for how in DEALS:
                    mine.append({"squares": square, "blocks": each, "deal": how})
                    mine[-1] |= _row(plan, cost, ranks, each, how, seed)
        print(f"{name}: {plan.sequences:,} sequences, {plan.blocks:,} blocks of {plan.t_max:,}")
        print(_table(mine, ranks), end="\n\n", flush=True)
        rows += [{"lengths": name, **row} for row in mine]
    return {"rows": rows}


def train_deals(ranks: Ranks, *, overrides: Sequence[str], share: float, rounds: int) -> Rows:
    """A row for each loader and deal, which have taken turns on two ranks."""
    register()
    ways = [Way(job.config, ranks) for job in jobs_of(["experiment=balance", *overrides])]
    rows = []
    for way, turns in zip(ways, take_turns(ways, share, rounds), strict=True):
        mine = [taken for turn in turns for taken in turn]
        busy_RS = np.array(ranks.gather([taken.busy for taken in mine]))
        loads_SR = way.loader.sampler.dealt.loads(way.loader.sampler.cost)[: len(mine)]
        seconds = sum(taken.seconds for taken in mine)
        rows.append(
            {
                "loader": way.cfg.loader.name,
                "deal": way.cfg.loader.deal,
                "predicted": float(loads_SR.max(axis=1).sum() / loads_SR.mean(axis=1).sum()),
                "measured": float(busy_RS.max(axis=0).sum() / busy_RS.mean(axis=0).sum()),
                "frames a second": sum(taken.frames for taken in mine) / seconds,
                "steps": len(mine),
            }
        )
    return rows


def _plans(files: list[str], sequences: int, seed: int) -> Iterator[tuple[str, Plan]]:
    """Every distribution, packed."""
    if files:
        for file in files:
            yield file, make_plan(read_lengths(Path(file)), "bload_exact", seed=seed)
        return
    yield "Action Genome", make_plan(action_genome_lengths(), "bload_exact", seed=seed)
    drawn = np.random.default_rng(seed).lognormal(6.0, 1.3, sequences)
    tail = np.clip(drawn.round(), 1, 8192).astype(np.int64)
    yield "long tail", make_plan(tail, "bload_exact", seed=seed)


def _row(
    plan: Plan, cost: Cost, ranks: list[int], blocks: int, how: str, seed: int
) -> dict[str, Any]:
    """Over ideal on each number of ranks, and what the deal costs in randomness and time."""
    over, spread, began = [], 0.0, time.perf_counter()
    work = cost.of_blocks(plan).sum()
    for count in ranks:
        rng = np.random.default_rng([seed, 0, 1])
        dealt = deal(plan, count, micro_batches=blocks, how=how, cost=cost, rng=rng)
        over.append(float(dealt.loads(cost).max(axis=1).sum() * count / work))
        if count == ranks[min(1, len(ranks) - 1)]:
            random = deal(plan, count, micro_batches=blocks, rng=rng)
            spread = _spread(dealt, cost) / max(_spread(random, cost), 1e-12)
    seconds = (time.perf_counter() - began) / len(ranks)
    return {"over": over, "spread": spread, "milliseconds": round(1000 * seconds, 1)}


def _spread(dealt: Any, cost: Cost) -> float:
    """Standard deviation over full steps of the mean cost of a step's blocks."""
    count = np.array([(dealt.blocks_of_step(step) >= 0).sum() for step in range(dealt.steps)])
    return float(dealt.loads(cost).sum(axis=1)[count == count.max()].std())


def _table(rows: list[dict[str, Any]], ranks: list[int]) -> str:
    keys = ("squares", "blocks", "deal")
    cells = [
        [*(row[key] for key in keys), *row["over"], row["spread"], row["milliseconds"]]
        for row in rows
    ]
    heads = [*keys, *(f"{count}\nranks" for count in ranks), "spread", "ms"]
    forms = ("g", "", "", *[".3f"] * len(ranks), ".2f", ".1f")
    return tabulate(cells, heads, floatfmt=forms)


def main() -> None:
    measure("balance", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()
