"""Deadlock: do ranks with unequal numbers of steps wait for ever, as the paper says?

    python -m experiments.deadlock --measure    # a minute on two CPU cores, 5 s of it waiting
    python -m experiments.deadlock              # the table of what was measured

Two ranks on the CPU (gloo) train a small GRU for an epoch on feature sequences with Action
Genome's lengths: under plain DDP with a clip of one sequence per step, the same with torch's
``Join``, plain DDP in which a finished rank exits, and each of the loaders. DDP averages gradients
in the backward pass, so a rank with one step more waits there. Gloo gives up after the process
group's timeout, by default 30 minutes, here seconds. Ranks that do not end are killed, at the
latest with the process that started them.
"""

import json
import multiprocessing as mp
import os
import re
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import isnan
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from bload import PACKERS, BlockLoader, action_genome_lengths
from experiments.study import markdown, measuring
from experiments.sync import draw, new_classifier, source_of, train_on
from training.stopping import detach_worker

PLAIN, JOIN, EXITS, BLOCKS = "plain DDP", "DDP with Join", "DDP, exits when done", "DDP, blocks"
UNEVEN = "uneven"
RANKS, CLIP, FRAMES = 2, 16, 376
"""Ranks; frames per step of plain DDP; slots per rank and step of a loader."""
PATIENCE, LIMIT = 300.0, 600.0
"""Seconds: gloo's timeout if none is expected, and the time after which ranks are killed."""


@dataclass(frozen=True)
class Epoch:
    """An epoch of two ranks. Under `UNEVEN` a step is a clip of one of the rank's own sequences."""

    way: str
    loader: str
    lengths: tuple[int, ...]
    patience: float = PATIENCE

    def batches(self, rank: int) -> BlockLoader:
        """Return the epoch of one of the ranks."""
        items = draw(self.lengths)
        if self.loader == UNEVEN:
            mine = source_of(items[rank::RANKS])
            return BlockLoader(
                mine, "naive", batch_slots=CLIP, t_max=CLIP, long="split", rank=0, world_size=1
            )
        source = source_of(items)
        return BlockLoader(source, self.loader, batch_slots=FRAMES, rank=rank, world_size=RANKS)


def measure(videos: int, timeout: float) -> list[dict]:
    """Return a row for each way to train: steps planned and done by each rank, and how it ended."""
    drawn = np.random.default_rng(0).choice(action_genome_lengths(), videos)
    lengths = tuple(drawn.tolist())
    epochs = [Epoch(way, UNEVEN, lengths) for way in (JOIN, EXITS)]
    epochs += [Epoch(BLOCKS, loader, lengths) for loader in PACKERS]
    return [_row(epoch) for epoch in (Epoch(PLAIN, UNEVEN, lengths, timeout), *epochs)]


def _row(epoch: Epoch) -> dict:
    ends = run_ranks(epoch)
    says = "; ".join(f"rank {rank}: {end['says']}" for rank, end in enumerate(ends) if end["says"])
    account = asdict(epoch.batches(0).account) if epoch.way == BLOCKS else {}
    return {
        "way": epoch.way,
        "loader": epoch.loader,
        **{f"{of}_{rank}": end[of] for of in ("planned", "steps") for rank, end in enumerate(ends)},
        "ended": ("timed out" if "timed out" in says.lower() else "failed") if says else "finished",
        "seconds": round(max(end["seconds"] for end in ends), 2),
        **{of: account.get(of) for of in ("padding", "deleted", "filler")},
        "says": says,
    }


def run_ranks(epoch: Epoch) -> list[dict]:
    """Train an epoch in two processes, which end with this call; return how each rank ended."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["experiments.sync", "torch._dynamo"])
    with TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=_train, args=(rank, epoch, folder), daemon=True)
            for rank in range(RANKS)
        ]
        deadline = time.monotonic() + LIMIT
        try:
            for process in ranks:
                process.start()
            for process in ranks:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in ranks:
                process.kill()
                process.join()
        for rank, process in enumerate(ranks):
            file = Path(folder, f"{rank}.json")
            if process.exitcode == -SIGKILL and not file.exists():
                known = {"planned": epoch.batches(rank).steps, "steps": "?", "seconds": LIMIT}
                file.write_text(json.dumps(known | {"says": f"killed after {LIMIT:g} s"}))
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]


def _train(rank: int, epoch: Epoch, folder: str) -> None:
    """Train one of two ranks, and write down how it ended."""
    detach_worker(rank)  # Ctrl-C is for their parent, which kills them
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    model, optimiser = new_classifier()
    batches, store = [*epoch.batches(rank)], dist.FileStore(f"{folder}/store", RANKS)
    _meet(store, rank, "begins")
    timeout = timedelta(seconds=epoch.patience)
    done, says, began = 0, "", time.monotonic()
    try:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timeout)
        parallel = DistributedDataParallel(model)
        with Join([parallel]) if epoch.way == JOIN else nullcontext():
            for batch in batches:
                train_on(parallel, optimiser, batch)
                done += 1
    except RuntimeError as error:  # without gloo's source line and advice
        says = re.sub(r"^\[\S+\] ", "", " ".join(str(error).split())).split(". ")[0]
    seconds = time.monotonic() - began
    end = {"planned": len(batches), "steps": done, "seconds": seconds, "says": says}
    Path(folder, f"{rank}.json").write_text(json.dumps(end))
    if epoch.way != EXITS:  # stay until the other is done, like a rank that evaluates
        _meet(store, rank, "ends")


def _end_with_parent() -> None:
    if parent := mp.parent_process():
        parent.join()
    os._exit(1)


def _meet(store: dist.Store, rank: int, where: str) -> None:
    """Wait for the other rank, outside of the process group."""
    store.set(f"{where} {rank}", "")
    store.wait([f"{where} {other}" for other in range(RANKS)], timedelta(seconds=LIMIT))


def tables(rows: pd.DataFrame) -> str:
    """Tabulate the steps of each rank, planned and done, and how they ended."""
    cells = [
        [
            row.way if row.loader == UNEVEN else f"{row.way}, `{row.loader}`",
            f"{row.steps_0} of {row.planned_0}, {row.steps_1} of {row.planned_1}",
            f"{row.ended}; {row.says}" if row.says else row.ended,
            *("" if isnan(of) else f"{of:,.0f}" for of in (row.padding, row.deleted, row.filler)),
        ]
        for row in rows.fillna({"says": ""}).itertuples()
    ]
    heads = ["", "steps of the ranks", "ended", "padded", "deleted", "filler slots"]
    return markdown(cells, heads, words=3)


if __name__ == "__main__":
    options = {"videos": (200, "sequences"), "timeout": (5.0, "seconds that plain DDP waits")}
    measuring("deadlock", __doc__, measure, tables, options)
