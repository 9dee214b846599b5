"""Distributions of lengths between 1 and a longest, for data sets that vary by orders of magnitude.

Every shape is a function ``(count, longest, rng) -> lengths``; one sequence always has the longest
length, so that it is the natural ``T_max``.
"""

import numpy as np


def log_uniform(count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """As many sequences of 1 to 10 as of 10 to 100 as of 100 to 1,000 frames."""
    lengths = np.exp(rng.uniform(0, np.log(longest + 1), count))
    return _whole(lengths, longest)


def log_normal(count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Most around a twentieth of the longest, with a heavy tail, as recordings and texts have it.

    Median longest / 20 and sigma 1; one in seven hundred is cut to the longest.
    """
    return _whole(rng.lognormal(np.log(longest / 20), 1, count), longest)


SHAPES = {"log-uniform": log_uniform, "log-normal": log_normal}
"""Name -> shape."""


def _whole(lengths: np.ndarray, longest: int) -> np.ndarray:
    whole = np.clip(lengths, 1, longest).astype(np.int64)
    whole[0] = longest
    return whole
