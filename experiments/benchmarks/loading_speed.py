"""Time what the library itself costs: batches and the forms of their boundaries.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.loading_speed    # an idle CPU
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.loading_speed --ahead

Lengths are drawn from Action Genome's. A source that returns tokens from memory stands for the
data, so a batch costs what the library adds to reading. `torch DataLoader` is the usual way: as
many tokens of whole sequences a batch, padded to the longest of them by `pad_sequence`.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import numpy as np
import torch
from tabulate import tabulate
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask
from torch.nn.utils.rnn import pad_sequence
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, Dataset

from bload import (
    Batch,
    BlockDataset,
    BlockLoader,
    BlockSampler,
    action_genome_lengths,
    collate_blocks,
    unpack,
)
from bload.ahead import Ahead

SLOTS = 65_536  # of a batch
BATCHES = 30
T_MAX = 8_192


class Tokens(Dataset[Tensor]):
    """Sequences of random tokens, in memory."""

    def __init__(self, lengths: np.ndarray) -> None:
        self.lengths = lengths
        self.ends = np.cumsum(lengths)
        self.tokens_F = torch.randint(50_000, (int(self.ends[-1]),))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, sequence: int) -> Tensor:
        return self.read(sequence, 0, int(self.lengths[sequence]))

    def read(self, sequence: int, first: int, length: int) -> Tensor:
        begin = int(self.ends[sequence] - self.lengths[sequence]) + first
        return self.tokens_F[begin : begin + length]


def tokens(factor: int) -> Tokens:
    """As many tokens as are read at least, in sequences of `factor` times the usual lengths."""
    usual = action_genome_lengths()
    sequences = int(1.2 * (BATCHES + 1) * SLOTS / (factor * usual.mean()))
    return Tokens(factor * np.random.default_rng(0).choice(usual, sequences))


def seconds_per_batch(batches: Iterable[object]) -> float:
    """Seconds from one batch to the next, without the first, which waits for workers to start."""
    steps = iter(batches)
    next(steps)
    began = time.perf_counter()
    taken = sum(1 for _ in islice(steps, BATCHES))
    return (time.perf_counter() - began) / taken


def median_ms(make: Callable[[], object]) -> float:
    timer = Timer("make()", globals={"make": make}, num_threads=torch.get_num_threads())
    return 1e3 * timer.blocked_autorange(min_run_time=1).median


def measure_batches() -> None:
    rows = []
    for factor in (1, 8, 64):
        source = tokens(factor)
        each = round(SLOTS / source.lengths.mean())  # sequences
        row: list[float] = [each]
        for workers in (0, 2):
            blocks = BlockLoader(source, t_max=T_MAX, batch_frames=SLOTS, num_workers=workers)
            padded: DataLoader[Tensor] = DataLoader(
                source,
                batch_size=each,
                num_workers=workers,
                collate_fn=partial(pad_sequence, batch_first=True),
            )
            row += [1e3 * seconds_per_batch(one) for one in (blocks, padded)]
        data = BlockDataset(source)
        samples = [data[block] for block in next(iter(blocks.sampler))]
        rows.append([*row, median_ms(partial(collate_blocks, samples))])
    print(f"\nms a batch of {SLOTS:,} tokens, without workers, then with 2")
    header = ("sequences", *("BlockLoader", "torch DataLoader") * 2, "collate_blocks alone")
    print(tabulate(rows, header, "plain", floatfmt=",.1f", intfmt=","))


def measure_forms(batch: Batch) -> None:
    segment_BT = batch.segment_BT
    B, T = segment_BT.shape

    def sees(b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (segment_BT[b, query] == segment_BT[b, key]) & (query >= key)

    embedded_BTD = torch.randn(*batch.valid_BT.shape, 8)
    forms: dict[str, Callable[[], object]] = {
        "cu_seqlens, max_seqlen": batch.varlen,
        "segment_position_BT": lambda: batch.segment_position_BT,
        "seq_idx_BT": lambda: batch.seq_idx_BT,
        "next_tokens": lambda: batch.next_tokens(batch.frames_BT),
        "to_packed, from_packed": lambda: batch.from_packed(batch.to_packed(embedded_BTD)),
        "block_mask": batch.block_mask,
        "torch's create_block_mask": lambda: create_block_mask(sees, B, None, T, T, device="cpu"),
        "unpack": lambda: unpack(embedded_BTD, batch),
    }
    rows = [(name, median_ms(make)) for name, make in forms.items()]
    segments = len(batch.table)
    print(f"\nms for each form of the boundaries of {segments} segments in {T_MAX:,}-slot blocks")
    print(tabulate(rows, ("form", "ms"), "plain", floatfmt=".2f"))


def measure_ahead(sequences: int, packer: str) -> None:
    """Time the wait between the end of an epoch and the first blocks of the next."""
    lengths = np.random.default_rng(0).choice(action_genome_lengths(), sequences)
    sampler, seconds = BlockSampler(lengths, packer), list[float]()
    for ahead in (None, Ahead()):
        sampler.ahead = ahead
        next(iter(sampler))
        if ahead:
            time.sleep(1.5 * seconds[0])  # stands for training
        sampler.set_epoch(sampler.epoch + 1)
        began = time.perf_counter()
        next(iter(sampler))
        seconds.append(time.perf_counter() - began)
    print(f"seconds until the next epoch of {sequences:,} sequences begins, {packer}")
    print(f"planned here {seconds[0]:.1f}, planned ahead {seconds[1]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time batches and boundaries.")
    parser.add_argument("--most", type=int, default=1_000_000, help="sequences to plan ahead")
    parser.add_argument("--ahead", action="store_true", help="time a plan made ahead alone")
    parser.add_argument("--packer", default="bload_exact", help="of the plan made ahead")
    arguments = parser.parse_args()

    print(f"{torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    if arguments.ahead:
        measure_ahead(arguments.most, arguments.packer)
        return
    measure_batches()
    measure_forms(next(iter(BlockLoader(tokens(8), t_max=T_MAX, batch_frames=SLOTS))))


if __name__ == "__main__":
    main()
