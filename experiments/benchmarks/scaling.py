"""Frames a second on one rank and on two, and what the schedule alone allows on 8 to 512.

Measured: blocks of `bload_exact` under `dds_tiny`, on ranks that torchrun starts, in turns. Parts
of a step are also timed separately, one after another. Predicted: Action Genome's lengths; a step
lasts as long as the slots of its fullest rank, and communication is free.
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
from experiments.benchmarks import Row, Table, make_job
from experiments.interleaved import Contender, on_ranks
from experiments.study import ROOT, write_rows
from training.ranks import Ranks
from training.step import backward

CODE = ("models", "bload/packing", "bload/schedule", "training/ranks.py", "training/step.py")
BLOCKS = {1: (1, 2, 4), 2: (1, 2)}
"""Number of ranks -> blocks per rank and step."""
ROUNDS, STEPS, MINUTES = 3, 20, 10
IMBALANCE, DEALT = "imbalance of frames", "the same by `window`, %"
BALANCES = ("none", "window")
WORK = ("of one rank, same work each", "of one rank, same work in all")
TIMES = ("forward and backward, ms", "waiting, ms", "all-reduce, ms")
RANKS, LOADERS = (1, 8, 32, 128, 512), ("naive", "ragged", "bload", "bload_exact")


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of what is measured, and of what is predicted."""
    turns = [run_ranks(ranks, quick) for _ in range(1 if quick else ROUNDS) for ranks in BLOCKS]
    keys = ["ranks", "blocks per rank"]
    medians = pd.concat(turns).groupby(keys).median(numeric_only=True)
    for row in medians.reset_index().to_dict("records"):
        ranks, blocks = (row[key] for key in keys)
        for name, base_blocks in zip(WORK, (blocks, ranks * blocks), strict=True):
            row[name] = row["frames/s"] / medians["frames/s"][1, base_blocks]
        yield {"table": "measured", **row}
    for loader in LOADERS:
        yield from predict(loader)


def run_ranks(ranks: int, quick: bool) -> pd.DataFrame:
    """Run so many ranks with torchrun, for at most `MINUTES`; return their rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        run += [f"--nproc_per_node={ranks}", "-m", "experiments.benchmarks.scaling"]
        run += [f"{folder}/rows.csv", *["quick"] * quick]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run(run, env=environment, timeout=60 * MINUTES, check=True)
        return pd.read_csv(f"{folder}/rows.csv")


def time_ranks(ranks: Ranks, quick: bool) -> list[Row]:
    """Return a row for each number of blocks, with means over torchrun's ranks."""
    rows, steps = [], 2 if quick else STEPS
    for blocks in BLOCKS[ranks.world_size][: 2 // ranks.world_size if quick else None]:
        contender = Contender(make_job(quick, train={"batch_slots": 94 * blocks}), ranks)
        turn = contender.take_steps(steps)
        means = pd.DataFrame(time_parts(contender, steps)).mean().to_dict()
        means["frames/s"] = turn.frames_per_second
        row = {"ranks": ranks.world_size, "blocks per rank": blocks}
        rows.append(row | pd.DataFrame(ranks.gather(means)).mean().to_dict())
    return rows


def time_parts(contender: Contender, steps: int) -> Iterator[Row]:
    """Yield the milliseconds of each part of a step, one after another."""
    ranks, now = contender.ranks, time.perf_counter
    training = replace(contender.training, parallel=contender.training.model)
    for batches in islice(contender.steps, steps):
        ranks.barrier()
        began = now()
        backward(training, batches, 0)  # nothing is exchanged
        computed_at = now()
        ranks.barrier()
        met_at = now()
        parameters = training.model.parameters()
        gradient = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        flattened = now()
        ranks.sum(gradient)
        seconds = computed_at - began, met_at - computed_at, now() - flattened
        yield dict(zip(TIMES, (1e3 * part for part in seconds), strict=True))


def predict(loader: str) -> Iterator[Row]:
    """Predict the first epoch of a loader on each number of ranks, in turn and by `window`."""
    lengths, base_slots = action_genome_lengths(), 0.0
    make_sampler = partial(BlockSampler, lengths, loader, batch_slots=94)
    for ranks in RANKS:
        samplers = [make_sampler(rank=0, world_size=ranks, balance=balance) for balance in BALANCES]
        schedule, account = samplers[0].schedule, samplers[0].schedule.account
        slots = [float(sampler.schedule.loads().max(axis=1).sum()) for sampler in samplers]
        base_slots = base_slots or slots[0]
        row = {"table": "predicted", "loader": loader, "ranks": ranks, "steps": account.steps}
        row |= {
            "speed-up": base_slots / slots[0],
            "of the ranks, %": 100 * base_slots / slots[0] / ranks,
        }
        row |= {DEALT: 100 * base_slots / slots[1] / ranks}
        row |= {"fillers, %": 100 * account.filler / account.processed}
        row |= {IMBALANCE: schedule.imbalance(Cost(slot=0, frame=1))}
        if ranks > 1:
            yield row


MEASURED = {"ranks": ".0f", "blocks per rank": ".0f", "frames/s": ",.0f"}
MEASURED |= {**dict.fromkeys(WORK, ".2f"), **dict.fromkeys(TIMES, ".1f")}
PREDICTED = {"loader": "", "ranks": ",.0f", "steps": ",.0f", "speed-up": ",.1f"}
PREDICTED |= {"of the ranks, %": ".1f", DEALT: ".1f", "fillers, %": ".1f", IMBALANCE: ".3f"}
TABLES = {
    "measured": Table("Measured on two cores:", MEASURED),
    "predicted": Table("Predicted by the schedule alone, one block per rank:", PREDICTED),
}

if __name__ == "__main__":
    if rows := on_ranks(time_ranks)(quick="quick" in sys.argv[2:]):
        write_rows(Path(sys.argv[1]), rows)
