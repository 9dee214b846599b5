"""Mix padding: one block of `t_max` slots a sequence; longer ones are cut, shorter ones padded.

    a a a a a -> |a a a|     the rest of a is deleted
    b         -> |b . .|

With the paper's T = 22 = floor(mean length) on Action Genome's training split: 7,464 blocks,
37,712 padded frames, 40,289 deleted. No reset in mid-block. Every sequence is seen, long context
is not. Cost: a few vector operations.
"""

import numpy as np

from bload.packers.sampling import Place, clip_offsets
from bload.plan import Plan


def pack(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator, *, place: Place = "random"
) -> Plan:
    """One clip of at most `t_max` frames a sequence, in random order.

    Args:
        place: which frames of a longer sequence stay: a ``random`` run or the ``first``.
    """
    kept = np.minimum(lengths, t_max)
    first = clip_offsets(lengths, kept, place, rng)
    order = rng.permutation(len(lengths))
    return Plan(t_max, lengths, order, first[order], kept[order], np.arange(len(lengths) + 1))
