"""Lower bound on the number of blocks of any packing.

It is the largest of three classical bounds of one-dimensional bin packing. They need only the
number of segments of each length, so their cost hardly grows with the number of sequences. A
packing that meets the bound is minimal; the minimum itself can lie above it.
"""

import numpy as np
from numpy.typing import ArrayLike


def lower_bound(lengths: np.ndarray, t_max: int) -> int:
    """Return a lower bound on the blocks of `t_max` slots in any packing of whole segments.

    Args:
        lengths: segment lengths, ``(segments,)``, each 1 to `t_max`.

    The bounds: all frames need ceil(sum / t_max) blocks; for every size t, a block holds at most
    floor(t_max / t) segments of t frames or more; and L2 of Martello and Toth (Discrete Applied
    Mathematics 28, 1990): segments longer than half a block take one block each, and what does not
    fit beside them needs more blocks.
    """
    if len(lengths) == 0:
        return 0
    sizes, counts = np.unique(lengths, return_counts=True)
    by_frames = -(-int(np.sum(lengths)) // t_max)

    # for each size: number of segments of that length or more
    at_least = counts[::-1].cumsum()[::-1]
    by_size = int(np.max(-(-at_least // (t_max // sizes))))

    return max(by_frames, by_size, _martello_toth(sizes, counts, t_max))


def _martello_toth(sizes: np.ndarray, counts: np.ndarray, t_max: int) -> int:
    half = t_max // 2
    small = sizes[sizes <= half]  # least length that counts as small; an existing one is best
    if len(small) == 0:
        return int(counts.sum())
    numbers, sums = ([0, *np.cumsum(values)] for values in (counts, counts * sizes))

    def shorter(lengths: ArrayLike, than: list[int]) -> np.ndarray:
        """Return the number of segments shorter than each of `lengths`, or their frames."""
        return np.array(than, dtype=np.int64)[np.searchsorted(sizes, lengths)]

    # segments longer than t_max - small: nothing small fits beside them
    huge = numbers[-1] - shorter(t_max - small + 1, numbers)
    # longer than half a block: one per block, with room for something small
    large = shorter(t_max - small + 1, numbers) - shorter(half + 1, numbers)
    large_frames = shorter(t_max - small + 1, sums) - shorter(half + 1, sums)
    small_frames = shorter(half + 1, sums) - shorter(small, sums)
    left_over = np.maximum(small_frames - (large * t_max - large_frames), 0)
    return int(np.max(huge + large + -(-left_over // t_max)))
