"""Orders of U units: the cost of each unit, in random order -> the units of every step.

    def order(cost_U, size, ranks, rng) -> [units of step 0, units of step 1, ...]

A unit is a block, or a micro-batch if blocks have several sizes. Every step has `size` units, the
last one at most that. Only `queue` uses `ranks`.
"""

import numpy as np


def keep_order(
    cost_U: np.ndarray, size: int, ranks: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Keep the order of the plan, so that every step is a random draw."""
    units = np.arange(len(cost_U))
    return [units[i : i + size] for i in range(0, len(units), size)]


def window(
    cost_U: np.ndarray, size: int, ranks: int, rng: np.random.Generator, *, steps: int = 16
) -> list[np.ndarray]:
    """Sort units by cost within windows of `steps` steps, and shuffle the steps of each window.

    Steps of similar cost need no further balance, but the order is less random.
    """
    ordered: list[np.ndarray] = []
    for units in keep_order(cost_U, size * steps, ranks, rng):
        units = units[np.argsort(-cost_U[units], kind="stable")]
        full = [units[i : i + size] for i in range(0, len(units) - size + 1, size)]
        ordered += [full[i] for i in rng.permutation(len(full))]
        ordered += [units[len(full) * size :]] if len(units) % size else []
    return ordered


def queue(
    cost_U: np.ndarray,
    size: int,
    ranks: int,
    rng: np.random.Generator,
    *,
    levels: tuple[float, ...] = (0.7, 0.85, 0.95),
) -> list[np.ndarray]:
    """Hold costly units back, by level, until there is one for every rank.

    It follows the outlier queues of WLB-LLM (arXiv 2503.17924).

    Args:
        levels: quantiles of the cost at which the levels begin.
    """
    level_U = np.searchsorted(np.quantile(cost_U, levels), cost_U, side="right")
    waiting: list[list[int]] = [[] for _ in range(len(levels) + 1)]
    ordered: list[np.ndarray] = []
    ready: list[int] = []  # costly units, added by groups of one per rank
    cheap = waiting[0]
    for unit, level in enumerate(level_U.tolist()):
        waiting[level].append(unit)
        if level and len(waiting[level]) == ranks:
            ready += waiting[level]
            waiting[level] = []
        costly = min(len(ready), size)
        if costly + len(cheap) >= size:
            ordered.append(np.array(ready[:costly] + cheap[: size - costly]))
            del ready[:costly], cheap[: size - costly]
    rest = np.array(sum(waiting, ready), dtype=np.int64)
    rest = rest[np.argsort(-cost_U[rest], kind="stable")]
    return ordered + [rest[i : i + size] for i in range(0, len(rest), size)]
