"""Sync: must ranks share gradients in every step (``train.sync``), and what do they send?

    python -m experiments.sync --measure                         # 16 minutes in all, on two cores
    torchrun --nproc_per_node=2 -m experiments.sync --measure    # again with 4
    python -m experiments.sync                                   # the table of what was measured

Ranks on the CPU (gloo) train a small GRU on feature sequences, each seen once, after the online
training of Ergen and Kozat (arXiv 1710.08744). Bytes are those that a rank's process wrote (on
Linux). Only the bytes were predicted, by training/sync.py.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from bload import Batch, BlockLoader, SequenceSource, from_dataset
from experiments.interleaved import on_ranks
from experiments.intervals import t_interval
from experiments.study import markdown, report_rows
from training.ranks import Ranks
from training.sync import SYNCS, mean_weights, synchronise

FEATURES, CLASSES, WIDTH = 16, 4, 64
LONGEST, SLOTS = 16, 256
"""Frames of the longest sequence, as many as slots of a block; slots per step on all ranks."""
HELD_OUT = 256
"""Sequences, all of the longest length, on which losses are measured."""


def make_source(
    lengths: Sequence[int], seed: int = 0, held_out: bool = False, own: slice = slice(None)
) -> SequenceSource:
    """Draw random features; every frame leans a little towards the class of its sequence.

    Held-out sequences have the same classes and other noise. `own` selects a rank's sequences.
    """
    random = torch.Generator().manual_seed(seed)
    direction_KF = torch.randn(CLASSES, FEATURES, generator=random) / FEATURES**0.5
    if held_out:
        random.manual_seed(seed + 2**32)
    noise_NF = torch.randn(sum(lengths), FEATURES, generator=random)
    items = [
        (noise_TF + direction_KF[n % CLASSES], torch.full((len(noise_TF),), n % CLASSES))
        for n, noise_TF in enumerate(noise_NF.split([*lengths]))
    ]
    return from_dataset(items[own], lengths[own])


class Classifier(nn.Module):
    """A GRU that is cleared at every start, and a linear layer on its state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(FEATURES, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch: Batch) -> Tensor:
        """Return the sum of the losses of a batch's frames."""
        states, _ = self.gru(batch.to_packed(batch.inputs_BT))
        logits_BTK = self.head(batch.from_packed(states))
        return cross_entropy(logits_BTK.mT, batch.targets_BT, reduction="sum")  # ignores padding


def make_classifier() -> tuple[Classifier, torch.optim.Optimizer]:
    """Build the classifier with which every rank begins, and its optimiser."""
    torch.manual_seed(0)
    model = Classifier()
    return model, torch.optim.Adam(model.parameters(), lr=3e-3)


def train_on(model: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch) -> None:
    """Take one step on the frames of a batch; a batch of empty blocks has zero gradients.

    The loss is divided by the slots of a rank, equally many on all ranks, so that the ranks'
    gradients average to that of the whole step.
    """
    optimiser.zero_grad()
    (model(batch) / batch.valid_BT.numel()).backward()
    optimiser.step()


def measure(ranks: Ranks, sequences: int = 3000, seeds: int = 3) -> list[dict]:
    """Return a row for each seed, way to deal the data and way to share what is learned.

    Blocks of all sequences are ``dealt`` to the ranks at random, or every rank has its ``own``
    classes, two on two ranks and one on four.
    """
    count, rows = ranks.world_size, []
    alone = dist.new_subgroups(1)[0] if count > 1 else None
    ways = [*product(("dealt", "own"), SYNCS)] if count > 1 else [("dealt", "allreduce")]
    for seed in range(seeds):
        lengths = np.random.default_rng(seed).integers(4, LONGEST + 1, sequences).tolist()
        unseen = make_source([LONGEST] * HELD_OUT, seed, held_out=True)
        (test,) = BlockLoader(unseen, "naive", batch_slots=HELD_OUT * LONGEST, process_group=alone)
        for data, sync in ways:
            own, group = slice(None), None
            if data == "own":
                own, group = slice(ranks.rank, None, count), alone
            options: dict = {"batch_slots": SLOTS // count, "seed": seed, "process_group": group}
            source = make_source(lengths, seed, own=own)
            loader = BlockLoader(source, "bload", t_max=LONGEST, **options)
            row = {"ranks": count, "data": data, "sync": sync, "seed": seed}
            rows.append(row | train_epoch(ranks, loader, sync, test))
    return rows


def train_epoch(ranks: Ranks, loader: BlockLoader, sync: str, test: Batch) -> dict:
    """Train on every block once; return the loss of mean weights, and the bytes sent per step."""
    model, optimiser = make_classifier()
    many = ranks.world_size > 1
    parallel = DistributedDataParallel(model) if many and sync == "allreduce" else model
    steps = min(ranks.gather(loader.steps))  # own sequences may make one block more
    sent = 0
    for step, batch in zip(range(1, steps + 1), loader, strict=False):
        bytes_before = bytes_written()
        train_on(parallel, optimiser, batch)
        synchronise(sync, model, step, steps, 8)
        sent += bytes_written() - bytes_before
    with torch.no_grad(), mean_weights([model]) if many else nullcontext():
        loss = float(model(test) / test.valid_BT.sum())
    return {"steps": steps, "loss": loss, "bytes_per_step": fmean(ranks.gather(sent / steps))}


def bytes_written() -> int:
    """Return the bytes that this process has written: in training, to other ranks (Linux)."""
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


def tables(rows: pd.DataFrame) -> str:
    """Tabulate means over seeds, and losses minus allreduce's, seed by seed."""
    keys, cells = ["ranks", "data", "seed"], []
    base = rows[rows.sync == "allreduce"].set_index(keys).loss
    for (ranks, data, sync), runs in rows.groupby(["ranks", "data", "sync"], sort=False):
        mean, less = runs.mean(numeric_only=True), runs.set_index(keys).loss - base
        cells.append([data, sync, ranks, f"{mean.steps:.0f}", f"{mean.bytes_per_step / 1024:.1f}"])
        difference = "" if sync == "allreduce" else t_interval(less).text(3, sign=True)
        cells[-1] += [f"{mean.loss:.3f}", difference]
    heads = ["data", "`train.sync`", "ranks", "steps", "KiB per rank and step"]
    return markdown(cells, [*heads, "loss at the end", "minus `allreduce`"], words=2)


if __name__ == "__main__":
    report_rows("sync", __doc__, on_ranks(measure), tables, key="ranks")
