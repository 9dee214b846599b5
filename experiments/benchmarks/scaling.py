"""Frames a second on one rank and on two, and what the schedule alone allows on 8 to 512.

Measured: blocks of `bload_exact` under `dds_tiny`, on ranks that torchrun starts, in turns.
Predicted: Action Genome's lengths; a step lasts as long as the slots of its fullest rank, and
communication is free.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

import pandas as pd

from bload import BlockSampler, action_genome_lengths
from experiments.benchmarks import FEW_VIDEOS, Row, Table
from experiments.interleaved import Contender, on_ranks
from experiments.study import ROOT, write_rows
from training.compose import compose_job
from training.ranks import Ranks

BLOCKS = {1: (1, 2, 4), 2: (1, 2)}
"""Number of ranks -> blocks per rank and step."""
KEYS = ["ranks", "blocks per rank"]
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
    rows = []
    for blocks in BLOCKS[ranks.world_size][: 2 // ranks.world_size if quick else None]:
        line = ["loader=bload_exact", "train.workers=0", f"train.batch_slots={94 * blocks}"]
        line += [f"dataset.cache=data/cache64{'-quick' if quick else ''}"]
        line += ["dataset.train_videos=24", *FEW_VIDEOS] if quick else []
        contender = Contender(compose_job("train", line), ranks)
        turn = contender.take_steps(2 if quick else 20)
        row = dict(zip(KEYS, (ranks.world_size, blocks), strict=True))
        rows.append(row | {"frames/s": fmean(ranks.gather(turn.frames_per_second))})
    return rows


def predict(loader: str) -> Iterator[Row]:
    """Predict the first epoch of a loader on each number of ranks."""
    base_slots = 0.0
    make_sampler = partial(BlockSampler, action_genome_lengths(), loader, batch_slots=94, rank=0)
    for ranks in RANKS:
        schedule = make_sampler(world_size=ranks).schedule
        slots, account = float(schedule.loads().max(axis=1).sum()), schedule.account
        base_slots = base_slots or slots
        row: Row = {"table": "predicted", "loader": loader, "ranks": ranks, "steps": account.steps}
        row |= {"speed-up": base_slots / slots, "efficiency, %": 100 * base_slots / slots / ranks}
        if ranks > 1:
            yield row | {"fillers, %": 100 * account.filler / account.processed}


MEASURED = dict.fromkeys(KEYS, ".0f") | {"frames/s": ",.0f"}
MEASURED |= {"weak scaling": ".2f", "strong scaling": ".2f"}
PREDICTED = {"loader": "", "ranks": ",.0f", "steps": ",.0f", "speed-up": ",.1f"}
PREDICTED |= {"efficiency, %": ".1f", "fillers, %": ".1f"}
TABLES = {
    "measured": Table("Measured on two cores:", MEASURED),
    "predicted": Table("Predicted by the schedule alone, one block per rank:", PREDICTED),
}

if __name__ == "__main__":
    if rows := on_ranks(time_ranks)(quick="quick" in sys.argv[2:]):
        write_rows(Path(sys.argv[1]), rows)
