"""Batches: assembled beside torch's DataLoader, and waiting for them in training.

Lengths are multiples of Action Genome's. Tokens lie in memory, so a batch costs what the library
adds to reading. torch is a `DataLoader` of as many sequences per batch, padded by `pad_sequence`.
"""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from bload import BlockLoader, action_genome_lengths, from_dataset
from experiments.benchmarks import Row, Table, job
from experiments.interleaved import Way
from training.ranks import Ranks
from training.step import train_step

SLOTS, T_MAX = 65_536, 8_192
ALONE = Ranks(0, 1, torch.device("cpu"))


def measure(quick: bool) -> Iterator[Row]:
    """Rows of batches, and of epochs of `dds_tiny`."""
    batches, collate = 2 if quick else 30, partial(pad_sequence, batch_first=True)
    for factor in (64,) if quick else (64, 8, 1):
        usual = action_genome_lengths()
        count = round(SLOTS / (factor * usual.mean()))
        lengths = factor * np.random.default_rng(0).choice(usual, int(1.2 * (batches + 1) * count))
        sequences = torch.randint(50_000, (int(lengths.sum()),)).split(lengths.tolist())
        source = from_dataset(sequences, lengths)
        row = {"table": "batches", "sequences": count}
        for workers in (0, 2):
            blocks = BlockLoader(source, t_max=T_MAX, batch_slots=SLOTS, num_workers=workers)
            padded = DataLoader(sequences, count, num_workers=workers, collate_fn=collate)
            row[f"{workers} workers"] = 1e3 * _seconds(blocks, batches)
            row[f"torch, {workers} workers"] = 1e3 * _seconds(padded, batches)
        yield row
    for workers, cached in ((0, True), (1, True), (1, False)):
        yield _epoch(workers, cached, quick)


def _seconds(batches: Iterable[object], count: int) -> float:
    """Seconds from one batch to the next, without the first, which waits for workers to start."""
    steps = iter(batches)
    next(steps)
    began = time.perf_counter()
    taken = sum(1 for _ in islice(steps, count))
    return (time.perf_counter() - began) / taken


def _epoch(workers: int, cached: bool, quick: bool) -> Row:
    """Seconds of an epoch whose workers are there already, and the share that it waits for data."""
    files = () if cached else ("dataset.cache=null",)
    way = Way(job(quick, f"train.workers={workers}", *files), ALONE)
    way.loader.set_epoch(1)
    waited, began = 0.0, time.perf_counter()
    asked = began
    for number, batches in enumerate(islice(way.loader.by_step(), 4 if quick else None)):
        waited += time.perf_counter() - asked
        train_step(way.training, batches, 1, number, way.loader.steps)
        asked = time.perf_counter()
    row = {"table": "waiting", "workers": workers, "frames from": "cache" if cached else "files"}
    seconds = asked - began
    return row | {"epoch, s": seconds, "waited, %": 100 * waited / seconds}


WAYS = {f"{who}{workers} workers": ",.1f" for workers in (0, 2) for who in ("", "torch, ")}
WAITING = {"workers": ".0f", "frames from": "", "epoch, s": ".1f", "waited, %": ".1f"}
TABLES = {
    "batches": Table(f"Milliseconds per batch of {SLOTS:,} tokens:", {"sequences": ",.0f"} | WAYS),
    "waiting": Table("Epochs of `dds_tiny`, whose workers are there already:", WAITING),
}
