"""A source whose frames say where they come from, and a few short lengths."""

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


@pytest.fixture(scope="session")
def numbered_source():
    return NumberedSource


@pytest.fixture(scope="session")
def small_lengths():
    """Forty sequences of 1 to 12 frames."""
    return np.random.default_rng(7).integers(1, 13, size=40)
