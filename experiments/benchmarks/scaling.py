"""Frames a second on one rank and on two, and what the schedule alone allows on 8 to 512.

Measured: blocks of `bload_exact` under `dds_tiny`, on ranks that torchrun starts, in turns. Parts
of a step are also timed separately, one after another. Predicted: Action Genome's lengths; a step
lasts as long as the slots of its fullest rank, and communication is free.
"""

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
from training.optimiser import Optimisers
from training.ranks import Ranks
from training.step import Position, train_step

CODE = ("models", "bload/packing", "bload/schedule", "training/ranks.py", "training/step.py")
BLOCKS = {1: (1, 2, 4), 2: (1, 2)}
"""Number of ranks -> blocks per rank and step."""
KEYS = ["ranks", "blocks per rank"]
TIMES = ("forward and backward, ms", "waiting, ms", "all-reduce, ms")
RANKS, LOADERS = (1, 8, 32, 128, 512), ("naive", "ragged", "bload", "bload_exact")


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of what is measured, and of what is predicted."""
    turns = [run_ranks(ranks, quick) for _ in range(1 if quick else 3) for ranks in BLOCKS]
    medians = pd.concat(turns).groupby(KEYS).median(numeric_only=True)
    for (ranks, blocks), row in medians.iterrows():  # type: ignore[misc]
        base = medians["frames/s"][1]
        weak, strong = row["frames/s"] / base[blocks], row["frames/s"] / base[ranks * blocks]
        scaling = {"weak scaling": weak, "strong scaling": strong}
        yield {"table": "measured", "ranks": ranks, "blocks per rank": blocks, **row, **scaling}
    for loader in LOADERS:
        yield from predict(loader)


def run_ranks(ranks: int, quick: bool) -> pd.DataFrame:
    """Run so many ranks with torchrun, for at most ten minutes; return their rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        run += [f"--nproc_per_node={ranks}", "-m", "experiments.benchmarks.scaling"]
        run += [f"{folder}/rows.csv", *["quick"] * quick]
        subprocess.run(run, cwd=ROOT, timeout=600, check=True)
        return pd.read_csv(f"{folder}/rows.csv")


def time_ranks(ranks: Ranks, quick: bool) -> list[Row]:
    """Return a row for each number of blocks, with means over torchrun's ranks."""
    rows, steps = [], 2 if quick else 20
    for blocks in BLOCKS[ranks.world_size][: 2 // ranks.world_size if quick else None]:
        contender = Contender(make_job(quick, f"train.batch_slots={94 * blocks}"), ranks)
        turn = contender.take_steps(steps)
        means = pd.DataFrame(time_parts(contender, steps)).mean().to_dict()
        means["frames/s"] = turn.frames_per_second
        row = dict(zip(KEYS, (ranks.world_size, blocks), strict=True))
        rows.append(row | pd.DataFrame(ranks.gather(means)).mean().to_dict())
    return rows


def time_parts(contender: Contender, steps: int) -> Iterator[Row]:
    """Yield the milliseconds of each part of a step, one after another."""
    ranks, now = contender.ranks, time.perf_counter
    model = contender.training.model
    training = replace(contender.training, parallel=model, optimiser=Optimisers())
    for batches in islice(contender.steps, steps):
        ranks.barrier()
        began = now()
        train_step(training, batches, Position(0, 0, 0.0))  # without an exchange or an update
        computed_at = now()
        ranks.barrier()
        met_at = now()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        gradient = torch.cat([gradient.flatten() for gradient in gradients])
        flattened = now()
        ranks.sum(gradient)
        seconds = computed_at - began, met_at - computed_at, now() - flattened
        yield dict(zip(TIMES, (1e3 * part for part in seconds), strict=True))


def predict(loader: str) -> Iterator[Row]:
    """Predict the first epoch of a loader on each number of ranks, in turn and by `window`."""
    base_slots = 0.0
    make_sampler = partial(BlockSampler, action_genome_lengths(), loader, batch_slots=94, rank=0)
    for ranks in RANKS:
        schedules = [make_sampler(world_size=ranks, balance=b).schedule for b in ("none", "window")]
        slots, by_window = (float(each.loads().max(axis=1).sum()) for each in schedules)
        schedule, account, base_slots = schedules[0], schedules[0].account, base_slots or slots
        if ranks > 1:
            yield {
                "table": "predicted",
                "loader": loader,
                "ranks": ranks,
                "steps": account.steps,
                "speed-up": base_slots / slots,
                "efficiency, %": 100 * base_slots / slots / ranks,
                "efficiency by `window`, %": 100 * base_slots / by_window / ranks,
                "fillers, %": 100 * account.filler / account.processed,
                "imbalance of frames": schedule.imbalance(Cost(slot=0, frame=1)),
            }


MEASURED = dict.fromkeys(KEYS, ".0f") | {"frames/s": ",.0f"}
MEASURED |= {"weak scaling": ".2f", "strong scaling": ".2f", **dict.fromkeys(TIMES, ".1f")}
PREDICTED = {"loader": "", "ranks": ",.0f", "steps": ",.0f", "speed-up": ",.1f"}
PREDICTED |= {"efficiency, %": ".1f", "efficiency by `window`, %": ".1f"}
PREDICTED |= {"fillers, %": ".1f", "imbalance of frames": ".3f"}
TABLES = {
    "measured": Table("Measured on two cores:", MEASURED),
    "predicted": Table("Predicted by the schedule alone, one block per rank:", PREDICTED),
}

if __name__ == "__main__":
    if rows := on_ranks(time_ranks)(quick="quick" in sys.argv[2:]):
        write_rows(Path(sys.argv[1]), rows)
