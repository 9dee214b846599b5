"""A source whose frames say where they come from, a cell, a batch, and short lengths."""

import json
import os

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import get_worker_info

from bload import BlockDataset, BlockSampler, collate_blocks
from bload.batch.step import StepList
from bload.packing.plan import filler_block


class NumberedSource:
    """Frame p of sequence s is the pair (s, p); its target is (s, p, reading process)."""

    def __init__(self, lengths):
        self.lengths = lengths

    def read(self, sequence, first, length):
        if get_worker_info():
            assert not torch._C._len_torch_function_stack()  # a mode makes workers slow
        positions = torch.arange(first, first + length)
        frames = torch.stack([torch.full_like(positions, sequence), positions], dim=1)
        return frames, [(sequence, first + i, os.getpid()) for i in range(length)]


class Cell(nn.Module):
    """A GRU of width 8, slot by slot."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def init_state(self, inputs_BD):
        return torch.zeros_like(inputs_BD)

    def step(self, inputs_BD, state):
        state = self.cell(inputs_BD, state)
        return state, state


def batch_of(source, rows, step, blocks=(), t_max=10):
    """A batch of blocks of a step, filled up with empty ones to so many rows."""
    filled = [*blocks, *[filler_block(t_max)] * (rows - len(blocks))]
    return collate_blocks(BlockDataset(source).__getitems__(StepList(filled, step)))


def rows_of(batches) -> list[list[list[int]]]:
    """The (sequence, position) of every frame, block by block, in the order read."""
    rows = []
    for batch in batches:
        numbers_BT = torch.stack([batch.sequence_BT, batch.position_BT], dim=-1)
        assert torch.equal(batch.inputs_BT, numbers_BT * batch.valid_BT[..., None])
        assert [list(target[:2]) for target in batch.targets] == numbers_BT[batch.valid_BT].tolist()
        rows += [row[v].tolist() for row, v in zip(batch.inputs_BT, batch.valid_BT, strict=True)]
    return rows


def samplers(lengths, ranks=1, **options):
    """The samplers of all ranks."""
    return [BlockSampler(lengths, rank=r, world_size=ranks, **options) for r in range(ranks)]


def train(everyone, state=None, steps=10**6):
    """Go on with a state by some steps; batches of each step, rank after rank."""
    by_step = {}
    for sampler in everyone:
        if state is not None:
            sampler.load_state_dict(json.loads(json.dumps(state)))
        first = sampler.step
        for batch in sampler:
            by_step.setdefault(sampler.step - batch.step.ends, []).append(batch)
            if batch.step.ends and sampler.step == first + steps:
                break
    return [*by_step.values()]


def frames_of(steps):
    """The sequence and position of every frame, sorted."""
    segments = (
        segment
        for step in steps
        for batch in step
        for block in batch
        for segment in zip(block.sequence, block.first, block.length, strict=True)
    )
    return sorted((int(s), int(first) + p) for s, first, n in segments for p in range(n))


@pytest.fixture(scope="session")
def numbered_source():
    return NumberedSource


@pytest.fixture(scope="session")
def small_lengths():
    """Forty sequences of 1 to 12 frames."""
    return np.random.default_rng(7).integers(1, 13, size=40)
