"""Frames a second on one rank and on two, and what the schedule alone allows on 8 to 512.

Measured: blocks of `bload_exact` under `dds_tiny`, on 1 and 2 ranks that torchrun starts, in turns.
Steps are those of training, whose all-reduce overlaps with the backward pass. Forward and backward,
waiting for the other rank, and the all-reduce of the gradients are also timed separately, one after
another.

Predicted: Action Genome's lengths, on so many ranks. A step lasts as long as the slots of its
fullest rank, and communication is free: the most that a machine can reach.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd
import torch

from bload import BlockSampler, Cost, action_genome_lengths
from experiments.benchmarks import Row, Table, job
from experiments.interleaved import Way, on_ranks
from experiments.study import ROOT, write_rows
from training.ranks import Ranks
from training.step import backward

BLOCKS = {1: (1, 2, 4), 2: (1, 2)}
"""Number of ranks -> blocks per rank and step."""
ROUNDS, STEPS, MINUTES = 3, 20, 10
IMBALANCE, DEALT = "imbalance of frames", "the same by `window`, %"
BALANCES = ("none", "window")
WORK = ("of one rank, same work each", "of one rank, same work in all")
PARTS = ("forward and backward, ms", "waiting, ms", "all-reduce, ms")
RANKS, LOADERS = (1, 8, 32, 128, 512), ("naive", "ragged", "bload", "bload_exact")


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of what is measured, and of what is predicted."""
    turns = [_start(ranks, quick) for _ in range(1 if quick else ROUNDS) for ranks in BLOCKS]
    keys = ["ranks", "blocks per rank"]
    found = pd.concat(turns).groupby(keys).median(numeric_only=True)
    for row in found.reset_index().to_dict("records"):
        ranks, blocks = row["ranks"], row[keys[1]]
        for work, of_one in zip(WORK, (blocks, ranks * blocks), strict=True):
            row[work] = row["frames/s"] / found["frames/s"][1, of_one]
        yield {"table": "measured", **row}
    for loader in LOADERS:
        yield from _predicted(loader)


def _start(ranks: int, quick: bool) -> pd.DataFrame:
    """Run so many ranks with torchrun, for at most `MINUTES`; return their rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        run += [f"--nproc_per_node={ranks}", "-m", "experiments.benchmarks.scaling"]
        run += [f"{folder}/rows.csv", *["quick"] * quick]
        around = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run(run, env=around, timeout=60 * MINUTES, check=True)
        return pd.read_csv(f"{folder}/rows.csv")


def on_these(ranks: Ranks, quick: bool) -> list[Row]:
    """Return a row for each number of blocks, with means over torchrun's ranks."""
    rows, steps = [], 2 if quick else STEPS
    for blocks in BLOCKS[ranks.world_size][: 2 // ranks.world_size if quick else None]:
        way = Way(job(quick, f"train.batch_slots={94 * blocks}"), ranks)
        turn = way.take(steps)
        mine = pd.DataFrame(_apart(way, steps)).mean().to_dict()
        mine["frames/s"] = sum(turn.frames) / sum(turn.seconds)
        row = {"ranks": ranks.world_size, "blocks per rank": blocks}
        rows.append(row | pd.DataFrame(ranks.gather(mine)).mean().to_dict())
    return rows


def _apart(way: Way, steps: int) -> Iterator[Row]:
    """Yield the milliseconds of each part of a step, one after another."""
    training, now = replace(way.training, parallel=way.training.model), time.perf_counter
    for batches in islice(way.steps, steps):
        way.ranks.barrier()
        began = now()
        backward(training, batches, 0)  # nothing is exchanged
        done = now()
        way.ranks.barrier()
        met = now()
        parameters = training.model.parameters()
        flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        flattened = now()
        way.ranks.sum(flat)
        times = done - began, met - done, now() - flattened
        yield dict(zip(PARTS, (1e3 * seconds for seconds in times), strict=True))


def _predicted(loader: str) -> Iterator[Row]:
    """Predict the first epoch of a loader on each number of ranks, in turn and by `window`."""
    first, sampler = 0.0, partial(BlockSampler, action_genome_lengths(), loader, batch_slots=94)
    for ranks in RANKS:
        turns, window = (sampler(rank=0, world_size=ranks, balance=of).schedule for of in BALANCES)
        account, load_SR = turns.account, turns.loads()
        seconds = float(load_SR.max(axis=1).sum()) / account.frames  # slots, for a frame
        first = first or seconds
        even = first * account.frames / float(window.loads().max(axis=1).sum())
        row = {"table": "predicted", "loader": loader, "ranks": ranks, "steps": account.steps}
        row |= {"speed-up": first / seconds, "of the ranks, %": 100 * first / seconds / ranks}
        row |= {DEALT: 100 * even / ranks}
        row |= {"fillers, %": 100 * account.filler / account.processed}
        row |= {IMBALANCE: turns.imbalance(Cost(slot=0, frame=1))}
        if ranks > 1:
            yield row


MEASURED = {"ranks": ".0f", "blocks per rank": ".0f", "frames/s": ",.0f"}
MEASURED |= {**dict.fromkeys(WORK, ".2f"), **dict.fromkeys(PARTS, ".1f")}
PREDICTED = {"loader": "", "ranks": ",.0f", "steps": ",.0f", "speed-up": ",.1f"}
PREDICTED |= {"of the ranks, %": ".1f", DEALT: ".1f", "fillers, %": ".1f", IMBALANCE: ".3f"}
TABLES = {
    "measured": Table("Measured on two cores:", MEASURED),
    "predicted": Table("Predicted by the schedule alone, one block per rank:", PREDICTED),
}

if __name__ == "__main__":
    if rows := on_ranks(on_these)(quick="quick" in sys.argv[2:]):
        write_rows(Path(sys.argv[1]), rows)
