"""Mix padding: one block of `t_max` slots per sequence; longer ones are cut, shorter ones padded.

    a a a a a -> |a a a|     the rest of a is deleted
    b         -> |b . .|

With T = 22 = floor(mean length) on Action Genome's training split, the only T that pads the 37,712
slots that a source gives BLoad: 7,464 blocks, 40,289 deleted frames. No state is reset inside a
block. Every sequence is seen, but long context is lost. Cost: a few vector operations.
"""

import numpy as np

from bload.packing.plan import Plan
from bload.packing.sampling import ClipPlace, clip_offsets


def pack(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator, *, place: ClipPlace = "random"
) -> Plan:
    """Keep one clip of at most `t_max` frames per sequence, in random order.

    Args:
        place: frames kept of a longer sequence: a ``random`` run, a ``fixed`` one (the same in
            every plan), or the ``first`` ones.
    """
    kept = np.minimum(lengths, t_max)
    first = clip_offsets(lengths, kept, place, rng)
    order = rng.permutation(len(lengths))
    return Plan(t_max, lengths, order, first[order], kept[order], np.arange(len(lengths) + 1))
