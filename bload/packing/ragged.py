"""Ragged batches: random whole sequences until a batch is full of frames, without padding.

    batch of 10    |a a a a|b b b|c c|      d, of 4 frames, does not fit
                   |d d d d|e e e e e|

A batch is one block with as many slots as frames. So shapes differ from batch to batch, and every
rank waits for the one with the fullest batch (`Schedule.imbalance`). The state is cleared at every
start, as in a packed block. This is the usual way to feed attention with variable lengths: batches
by frames or tokens (Lhotse, torchtune). Cost: a few vector operations.
"""

import numpy as np

from bload.errors import check_whole
from bload.packing.pieces import LongWithoutCarry, next_fit, whole_pieces
from bload.packing.plan import Plan


def pack(
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    *,
    long: LongWithoutCarry = "error",
    batch_slots: int = 0,
) -> Plan:
    """Fill one batch after another with sequences in random order.

    Args:
        batch_slots: frames in a batch, at least `t_max`; the loader passes its own.
    """
    sequence, first, length = whole_pieces(lengths, t_max, long)
    order = rng.permutation(len(sequence))
    full = max(check_whole("batch_slots", batch_slots, 0), t_max)
    offsets = next_fit(length[order], full)
    slots = np.add.reduceat(length[order], offsets[:-1])
    segments = sequence[order], first[order], length[order]
    batches = np.arange(len(offsets))
    return Plan(full, lengths, *segments, offsets, slots, batches)
