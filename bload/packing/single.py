"""Sequences one by one: a batch is one sequence with as many slots as frames, without padding.

    |a a a a a|      with micro_batches > 1 the gradients of several sequences add up
    |b b|            before a step

This trains sequences of any lengths with the least code. Each takes a forward and a backward pass,
so small ones leave a device idle, and ranks wait for the longest. Cost: one permutation.
"""

import numpy as np

from bload.packing.pieces import LongWithoutCarry, whole_pieces
from bload.packing.plan import Plan


def pack(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator, *, long: LongWithoutCarry = "error"
) -> Plan:
    """Give every piece a batch of its own, in random order."""
    sequence, first, length = whole_pieces(lengths, t_max, long)
    order = rng.permutation(len(sequence))
    segments = sequence[order], first[order], length[order]
    bounds = np.arange(len(order) + 1)
    return Plan(t_max, lengths, *segments, bounds, slots=length[order], batches=bounds)
