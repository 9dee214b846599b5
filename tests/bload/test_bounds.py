"""The lower bound against that of the literature, on small cases."""

import math

import numpy as np

from bload import make_plan
from bload.packing.bounds import lower_bound


def literal_bound(lengths: list[int], t_max: int) -> int:
    """The three bounds as the literature writes them, one threshold at a time."""
    by_frames = math.ceil(sum(lengths) / t_max)
    by_size = max(
        math.ceil(sum(w >= t for w in lengths) / (t_max // t)) for t in range(1, t_max + 1)
    )
    l2 = 0
    for k in range(t_max // 2 + 1):
        huge = [w for w in lengths if w > t_max - k]
        large = [w for w in lengths if t_max / 2 < w <= t_max - k]
        small = [w for w in lengths if k <= w <= t_max / 2]
        over = sum(small) - (len(large) * t_max - sum(large))
        l2 = max(l2, len(huge) + len(large) + max(0, math.ceil(over / t_max)))
    return max(by_frames, by_size, l2)


def test_the_bound_is_that_of_the_literature_and_no_plan_is_below_it():
    rng = np.random.default_rng(2024)
    for seed in range(400):
        t_max = int(rng.integers(1, 16))
        low = int(rng.integers(1, t_max + 1))
        lengths = rng.integers(low, int(rng.integers(low, t_max + 1)) + 1, int(rng.integers(1, 10)))
        bound = lower_bound(lengths, t_max)
        assert bound == literal_bound(lengths, t_max), (lengths, t_max)
        assert bound <= make_plan(lengths, "bload_exact", t_max, seed=seed).num_blocks
