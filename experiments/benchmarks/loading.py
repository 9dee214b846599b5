"""Batches: their assembly beside torch's DataLoader, and whether blocks pay.

Assembly is of tokens in memory, so a batch costs what the library adds to reading. Whether blocks
pay is measured on a bidirectional GRU, whose `PackedSequence` computes no padding, alone and behind
an encoder that computes every slot. Ways take turns, epoch by epoch.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from bload import Batch, BlockLoader, action_genome_lengths, from_dataset
from experiments.benchmarks import Row, Table

SLOTS, T_MAX, WIDTH = 65_536, 8_192, 32
Logits = Iterator[tuple[Tensor, Tensor]]
"""Logits and labels of batches."""


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of batches, and of epochs of sequence models."""
    for factor in (64,) if quick else (64, 8, 1):
        yield assemble_batches(factor, batches=2 if quick else 30)
    rng = np.random.default_rng(0)
    for data, lengths in (
        ("270 of 7 to 26", rng.integers(7, 27, 270)),
        ("64 of 100 to 1,344", np.exp(rng.uniform(np.log(100), np.log(1344), 64)).astype(int)),
        ("300 of Action Genome, 3 to 94", rng.choice(action_genome_lengths(), 300)),
    ):
        for encoder in (False, True):
            yield train_three_ways(data, lengths[:10] if quick else lengths, encoder, quick)


def assemble_batches(factor: int, batches: int) -> Row:
    """Time the assembly of batches, and torch's; lengths are Action Genome's times a factor."""
    base_lengths, collate = action_genome_lengths(), partial(pad_sequence, batch_first=True)
    count, random = round(SLOTS / (factor * base_lengths.mean())), np.random.default_rng(0)
    lengths = factor * random.choice(base_lengths, int(1.2 * (batches + 1) * count))
    sequences = torch.randint(50_000, (int(lengths.sum()),)).split(lengths.tolist())
    source, row = from_dataset(sequences, lengths), {"table": "batches", "sequences": count}
    for workers in (0, 2):
        blocks = BlockLoader(source, t_max=T_MAX, batch_slots=SLOTS, num_workers=workers)
        padded = DataLoader(sequences, count, num_workers=workers, collate_fn=collate)
        row[f"{workers} workers"] = milliseconds_per_batch(blocks, batches)
        row[f"torch, {workers} workers"] = milliseconds_per_batch(padded, batches)
    return row


def milliseconds_per_batch(batches: Iterable[object], count: int) -> float:
    """Time batches without the first, which waits for workers to start."""
    steps = iter(batches)
    next(steps)
    began = time.perf_counter()
    step_count = sum(1 for _ in islice(steps, count))
    return 1e3 * (time.perf_counter() - began) / step_count


class Classifier(nn.Module):
    """Sorts whole sequences into two classes: an encoder of each frame or none, a GRU, the mean."""

    def __init__(self, encoder: bool) -> None:
        super().__init__()
        layers = nn.Linear(WIDTH, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()
        self.encoder = nn.Sequential(*layers, nn.Linear(1024, WIDTH)) if encoder else nn.Identity()
        self.gru = nn.GRU(WIDTH, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 2)

    def padded(self, frames_BT: Tensor, length_B: Tensor) -> Tensor:
        """Return logits ``(B, 2)`` of sequences padded to the longest of their batch."""
        encoded_BT = self.encoder(frames_BT)
        packed = pack_padded_sequence(encoded_BT, length_B, True, enforce_sorted=False)
        outputs_BT, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.head(outputs_BT.sum(1) / length_B[:, None])

    def blocks(self, batch: Batch) -> Tensor:
        """Return logits ``(S, 2)`` of the sequences of a batch of blocks."""
        packed, _ = self.gru(batch.to_packed(self.encoder(batch.inputs_BT)))
        return self.head(batch.mean(batch.from_packed(packed)))


def train_three_ways(data: str, lengths: np.ndarray, encoder: bool, quick: bool) -> Row:
    """Time epochs of three ways, in turns; return seconds over those of blocks."""
    torch.manual_seed(0)
    frames, labels = [torch.randn(n, WIDTH) for n in lengths], torch.arange(len(lengths)) % 2
    model = Classifier(encoder)
    optimiser = torch.optim.Adam(model.parameters())
    pairs = list(zip(frames, labels.tolist(), strict=True))
    source = from_dataset(pairs, lengths, targets_per="sequence")
    loader = BlockLoader(source, batch_slots=max(round(16 * lengths.mean()), lengths.max()))

    def padded(sort: bool, epoch: int) -> Logits:
        order = np.random.default_rng(epoch).permutation(len(frames))
        order = order[np.argsort(lengths[order], kind="stable")] if sort else order
        for chosen in np.split(order, range(16, len(order), 16)):
            sequences = pad_sequence([frames[i] for i in chosen], batch_first=True)
            yield model.padded(sequences, torch.from_numpy(lengths[chosen])), labels[chosen]

    def blocks(epoch: int) -> Logits:
        loader.set_epoch(epoch)
        for batch in loader:
            yield model.blocks(batch), batch.targets_S

    ways: dict[str, Callable[[int], Logits]]
    ways = {"padded": partial(padded, False), "buckets": partial(padded, True), "blocks": blocks}
    seconds = {way: list[float]() for way in ways}
    for epoch in range(2 if quick else 6):
        for way, batches in ways.items():
            began = time.perf_counter()
            for logits_S, labels_S in batches(epoch):
                optimiser.zero_grad()
                cross_entropy(logits_S, labels_S).backward()
                optimiser.step()
            seconds[way].append(time.perf_counter() - began)
    middle = {way: float(np.median(epochs[1:])) for way, epochs in seconds.items()}
    row: Row = {"table": "whether blocks pay", "data": data}
    row |= {"encoder": "each frame" if encoder else "", "blocks, s": middle["blocks"]}
    return row | {way: middle[way] / middle["blocks"] for way in ("padded", "buckets")}


WORKERS = {f"{who}{workers} workers": ",.1f" for workers in (0, 2) for who in ("", "torch, ")}
PAY = {"data": "", "encoder": "", "padded": ".2f", "buckets": ".2f", "blocks, s": ".2f"}
BATCHES = {"sequences": ",.0f"} | WORKERS
TABLES = {
    "batches": Table(f"Milliseconds per batch of {SLOTS:,} tokens:", BATCHES),
    "whether blocks pay": Table("Seconds of an epoch, over those of blocks:", PAY),
}
