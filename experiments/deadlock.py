"""Deadlock: do ranks with unequal numbers of steps wait for ever?

    python -m experiments.deadlock --measure    # a minute on two CPU cores, 5 s of it waiting
    python -m experiments.deadlock              # the table of what was measured

Two ranks train an epoch under plain DDP with a clip of one sequence per step, the same with torch's
``Join``, plain DDP in which a finished rank exits, and each of the loaders. DDP averages gradients
in the backward pass, so a rank with one step more waits there, until gloo's timeout.
"""

import json
import re
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import isnan
from multiprocessing import set_forkserver_preload
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel

from bload import PACKERS, BlockLoader, action_genome_lengths
from experiments.study import markdown, report_rows
from experiments.sync import make_classifier, make_source, train_on

PLAIN, JOIN, EXITS, BLOCKS = "plain DDP", "DDP with Join", "DDP, exits when done", "DDP, blocks"
UNEVEN = "uneven"
RANKS, CLIP, FRAMES = 2, 16, 376
"""Ranks; frames per step of plain DDP; slots per rank and step of a loader."""
PATIENCE = 300.0
"""Gloo's timeout in seconds where none is expected."""


@dataclass(frozen=True)
class Epoch:
    """An epoch of two ranks. Under `UNEVEN` a step is a clip of one of the rank's own sequences."""

    way: str
    loader: str
    lengths: tuple[int, ...]
    patience: float = PATIENCE

    def batches(self, rank: int) -> BlockLoader:
        """Return the epoch of one of the ranks."""
        if self.loader == UNEVEN:
            own = make_source(self.lengths, own=slice(rank, None, RANKS))
            clips: dict = {"batch_slots": CLIP, "t_max": CLIP, "long": "split"}
            return BlockLoader(own, "naive", rank=0, world_size=1, **clips)
        source = make_source(self.lengths)
        return BlockLoader(source, self.loader, batch_slots=FRAMES, rank=rank, world_size=RANKS)


def measure(videos: int = 200, timeout: float = 5.0) -> list[dict]:
    """Return a row for each way to train: steps planned and done by each rank, and how it ended."""
    drawn = np.random.default_rng(0).choice(action_genome_lengths(), videos)
    lengths, rows = tuple(drawn.tolist()), []
    epochs = [Epoch(PLAIN, UNEVEN, lengths, timeout)]
    epochs += [Epoch(way, UNEVEN, lengths) for way in (JOIN, EXITS)]
    epochs += [Epoch(BLOCKS, loader, lengths) for loader in PACKERS]
    for epoch in epochs:
        ends = run_ranks(epoch)
        says = "; ".join(f"rank {r}: {end['says']}" for r, end in enumerate(ends) if end["says"])
        row: dict = {"way": epoch.way, "loader": epoch.loader, "says": says}
        for key in ("planned", "steps"):
            row |= {f"{key}_{rank}": end[key] for rank, end in enumerate(ends)}
        row["ended"] = "failed" if says else "finished"
        row["ended"] = "timed out" if "timed out" in says.lower() else row["ended"]
        account = asdict(epoch.batches(0).account) if epoch.way == BLOCKS else {}
        rows.append(row | {key: account.get(key) for key in ("padding", "deleted", "filler")})
    return rows


def run_ranks(epoch: Epoch) -> list[dict]:
    """Train an epoch in two processes, which end with this call; return how each rank ended."""
    set_forkserver_preload(["experiments.sync", "torch._dynamo"])
    with TemporaryDirectory() as folder:
        start_processes(train_rank, (epoch, folder), RANKS, daemon=True, start_method="forkserver")
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]


def train_rank(rank: int, epoch: Epoch, folder: str) -> None:
    """Train one of two ranks, and write down how it ended."""
    torch.set_num_threads(1)
    model, optimiser = make_classifier()
    batches, store = [*epoch.batches(rank)], dist.FileStore(f"{folder}/store", RANKS)
    wait_for_peer(store, rank, "begins")
    timeout = timedelta(seconds=epoch.patience)
    done, message = 0, ""
    try:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timeout)
        parallel = DistributedDataParallel(model)
        with Join([parallel]) if epoch.way == JOIN else nullcontext():
            for batch in batches:
                train_on(parallel, optimiser, batch)
                done += 1
    except RuntimeError as error:  # without gloo's source line and advice
        message = re.sub(r"^\[\S+\] ", "", " ".join(str(error).split())).split(". ")[0]
    end = {"planned": len(batches), "steps": done, "says": message}
    Path(folder, f"{rank}.json").write_text(json.dumps(end))
    if epoch.way != EXITS:  # stay until the other is done, like a rank that evaluates
        wait_for_peer(store, rank, "ends")


def wait_for_peer(store: dist.Store, rank: int, stage: str) -> None:
    """Wait for the other rank, outside of the process group."""
    store.set(f"{stage} {rank}", "")
    store.wait([f"{stage} {1 - rank}"], timedelta(seconds=2 * PATIENCE))


def tables(rows: pd.DataFrame) -> str:
    """Tabulate the steps of each rank, planned and done, and how they ended."""
    cells = []
    for row in rows.fillna({"says": ""}).itertuples():
        name = row.way if row.loader == UNEVEN else f"{row.way}, `{row.loader}`"
        steps = f"{row.steps_0} of {row.planned_0}, {row.steps_1} of {row.planned_1}"
        slots = ("" if isnan(n) else f"{n:,.0f}" for n in (row.padding, row.deleted, row.filler))
        cells.append([name, steps, f"{row.ended}; {row.says}" if row.says else row.ended, *slots])
    heads = ["", "steps of the ranks", "ended", "padded", "deleted", "filler slots"]
    return markdown(cells, heads, words=3)


if __name__ == "__main__":
    report_rows("deadlock", __doc__, measure, tables)
