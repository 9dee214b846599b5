"""BLoad exact: random blocks, full ones first, as few as can be found.

    1  rounds   |a a a a|b b b|. . .|   ->   |a a a a|d d d d d d|      b is loose again
    2  squeeze  |e e e e e e e|f f|.| |g g g|. . . .|   ->   |e e e e e e e|g g g| |f f|. . .|

1. Rounds (`rounds.py`): cut a random order into blocks, all at the same time, and fill the room of
   each by exchanging one of its pieces for a loose one of the right length. The rest begins the
   next round; 50 to 700 pieces of a thousand or of ten million are left in the end.
2. Squeeze (`squeeze.py`) the rest together with some full blocks: pool two blocks, give one the
   fullest subset and the other what remains, until the lower bound of `bounds.py` is reached.

If that misses the bound, a second way follows: best-fit decreasing on counts of lengths
(`decreasing.py`), squeezed too. The smaller packing is taken, the random one on a tie. Sequences
too long to share a block get one each from the start. Work is counted, not timed, so the plan is a
pure function of its arguments.

On Action Genome's training split at T_max 94: 1,775 blocks = ceil(166,785 / 94), 65 padded slots,
for each of 1,000 seeds; on the test split at T_max 121: 450 blocks, 79 padded.

Randomness: the plan is new each epoch, and which sequences share a block is as random as with
`bload`. Pairs repeat in two successive epochs with a share of about 0.0005; the lengths of two
sequences in a block share less than 0.001 nats of information (docs/results/padding.md). The second
way is less random: it only shuffles sequences of equal length.

Not proved: if the bound is missed, fewer may be possible. Action Genome split at 32 takes 5,234:
5,231 are possible, the bound is 5,217; split at 47, 3,557, where the bound of 3,549 is possible.

Cost: milliseconds for Action Genome; a third of a second for a million lengths, half of it for the
plan's own check, and a tenth more where the bound is missed (docs/performance.md).
"""

import numpy as np

from bload.packing.bounds import lower_bound
from bload.packing.decreasing import best_fit_decreasing
from bload.packing.pieces import Long, whole_pieces
from bload.packing.plan import Plan, plan_from_arrays
from bload.packing.rounds import full_blocks
from bload.packing.squeeze import squeeze_tail

MAX_SQUEEZED = 4_000
"""Largest number of left-over pieces that are squeezed; more are packed by length."""


def pack(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator, *, long: Long = "error"
) -> Plan:
    """Pack whole sequences into as few blocks as are found, in random order."""
    pieces = whole_pieces(lengths, t_max, long)
    size_P = pieces[2]
    is_alone_P = size_P > t_max - size_P.min()  # so long that nothing fits beside them
    blocks = int(is_alone_P.sum())
    block_P = np.empty(len(size_P), dtype=np.int32)
    block_P[is_alone_P] = np.arange(blocks)
    if blocks < len(size_P):
        shared_P, added = _pack_shared(size_P[~is_alone_P], min(t_max, int(size_P.sum())), rng)
        block_P[~is_alone_P] = shared_P + blocks
        blocks += added
    # blocks in random order, and so the pieces of each
    place_P = rng.permutation(blocks).astype(np.int64)[block_P]
    for_piece = len(block_P).bit_length()
    for_chance = 63 - for_piece - blocks.bit_length()
    order = (place_P << for_chance) | rng.integers(0, 1 << for_chance, len(block_P))
    order = np.sort((order << for_piece) | np.arange(len(order)))  # argsort takes six times as long
    order &= (1 << for_piece) - 1
    return plan_from_arrays(order, np.bincount(place_P), pieces, lengths, t_max)


def _pack_shared(
    size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Pack at random and, if that misses the bound, by length; return the smaller packing.

    It is the block of every piece, ``(pieces,)``, and the number of blocks.
    """
    bound = lower_bound(size_P, t_max)
    block_P, blocks = full_blocks(size_P, t_max, bound, rng)
    rest = np.flatnonzero(block_P < 0)
    if len(rest) > MAX_SQUEEZED:
        rest_P, added = best_fit_decreasing(size_P[rest], t_max, rng)
        block_P[rest] = rest_P + blocks
        blocks += added
    blocks = squeeze_tail(block_P, blocks, size_P, t_max, bound, rng)
    if blocks > bound:
        sorted_P, fewer = best_fit_decreasing(size_P, t_max, rng)
        fewer = squeeze_tail(sorted_P, fewer, size_P, t_max, bound, rng)
        if fewer < blocks:
            return sorted_P, fewer
    return block_P, blocks
