"""A source whose frames say where they come from, what batches hold of it, and short lengths."""

import os

import numpy as np
import pytest
import torch


class NumberedSource:
    """Frame p of sequence s is the pair (s, p); its target is (s, p, reading process)."""

    def __init__(self, lengths):
        self.lengths = lengths

    def read(self, sequence, first, length):
        positions = torch.arange(first, first + length)
        frames = torch.stack([torch.full_like(positions, sequence), positions], dim=1)
        return frames, [(sequence, first + i, os.getpid()) for i in range(length)]


def rows_of(batches) -> list[list[list[int]]]:
    """The (sequence, position) of every frame, block by block, in the order read."""
    rows = []
    for batch in batches:
        numbers_BT = torch.stack([batch.sequence_BT, batch.position_BT], dim=-1)
        assert torch.equal(batch.inputs_BT, numbers_BT * batch.valid_BT[..., None])
        assert [list(target[:2]) for target in batch.targets] == numbers_BT[batch.valid_BT].tolist()
        rows += [row[v].tolist() for row, v in zip(batch.inputs_BT, batch.valid_BT, strict=True)]
    return rows


@pytest.fixture(scope="session")
def numbered_source():
    return NumberedSource


@pytest.fixture(scope="session")
def small_lengths():
    """Forty sequences of 1 to 12 frames."""
    return np.random.default_rng(7).integers(1, 13, size=40)
