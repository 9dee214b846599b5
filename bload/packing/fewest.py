"""Fewest blocks for a few pieces, by dynamic programming over their subsets.

Every packing comes from some order of the pieces: fill a block until the next piece does not fit,
then begin another. For each subset only the order that ends soonest matters. So n pieces take
n * 2**n steps, as in the algorithm of Held and Karp.
"""

import numpy as np

MAX_PIECES = 12
"""Largest number of pieces for which this is used; it takes 2 ms."""


def fewest_blocks(
    size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return the block of each of P pieces of `size_P` frames, and the least number of blocks.

    The pieces are shuffled, because the first of several best packings is taken.
    """
    pieces = len(size_P)
    shuffled = rng.permutation(pieces)
    size_P1, bit_P1 = size_P[shuffled][:, None], (1 << np.arange(pieces))[:, None]
    subset_S = np.arange(1 << pieces)
    members_S = ((subset_S & bit_P1) > 0).sum(0)
    end_S = np.zeros(1 << pieces, dtype=np.int64)
    last_S = np.zeros(1 << pieces, dtype=np.int64)
    for members in range(1, pieces + 1):
        subset_M = subset_S[members_S == members]
        before_PM = end_S[subset_M & ~bit_P1]
        room_PM = -before_PM % t_max  # in the block of the piece before
        end_PM = before_PM + size_P1 + np.where(size_P1 <= room_PM, 0, room_PM)
        end_PM[(subset_M & bit_P1) == 0] = np.iinfo(np.int64).max
        last_S[subset_M] = end_PM.argmin(0)
        end_S[subset_M] = end_PM.min(0)
    block_P = np.empty(pieces, dtype=np.int32)
    subset = len(subset_S) - 1
    while subset:
        last = last_S[subset]
        block_P[shuffled[last]] = (end_S[subset] - 1) // t_max
        subset ^= 1 << int(last)
    return block_P, int(block_P.max()) + 1
