"""Lower bound on the number of blocks of any packing.

The largest of three classical bounds of one-dimensional bin packing. They need only the number of
segments of each length, so their cost hardly grows with the number of sequences. A packing that
meets the bound is minimal; the minimum itself can lie above it.
"""

import numpy as np


def lower_bound(lengths: np.ndarray, t_max: int) -> int:
    """Return a number of blocks of `t_max` slots that no packing of whole segments goes below.

    Args:
        lengths: segment lengths, ``(segments,)``, each 1 to `t_max`.
        t_max: slots in a block.

    The bounds: the frames themselves, ceil(sum / t_max); for every size t, a block holds at most
    floor(t_max / t) segments of t frames or more; and L2 of Martello and Toth (Discrete Applied
    Mathematics 28, 1990): segments longer than half a block take one block each, and what does
    not fit beside them needs blocks of its own.
    """
    if len(lengths) == 0:
        return 0
    if np.sum(lengths) <= t_max:
        return 1  # also keeps the arrays below no longer than the data, however large t_max
    counts = np.bincount(lengths, minlength=t_max + 1)
    size = np.arange(t_max + 1)
    total = int((counts * size).sum())
    by_frames = -(-total // t_max)

    # at_least[t]: segments of length t or more
    at_least = counts[::-1].cumsum()[::-1]
    per_block = t_max // size[1:]
    by_size = int(np.max(-(-at_least[1:] // per_block)))

    return max(by_frames, by_size, _martello_toth(counts, t_max))


def _martello_toth(counts: np.ndarray, t_max: int) -> int:
    number = np.concatenate([[0], np.cumsum(counts)])  # number[t]: segments shorter than t
    frames = np.concatenate([[0], np.cumsum(counts * np.arange(t_max + 1))])
    half = t_max // 2
    small = np.arange(1, half + 1)  # the least length that counts as small
    if len(small) == 0:
        return int(counts.sum())
    # segments longer than t_max - small: nothing small fits beside them
    huge = number[-1] - number[t_max - small + 1]
    # longer than half a block, one to a block, with room for something small
    large = number[t_max - small + 1] - number[half + 1]
    large_frames = frames[t_max - small + 1] - frames[half + 1]
    small_frames = frames[half + 1] - frames[small]
    left_over = np.maximum(small_frames - (large * t_max - large_frames), 0)
    return int(np.max(huge + large + -(-left_over // t_max)))
