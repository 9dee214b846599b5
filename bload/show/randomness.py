"""Measures of randomness: how often pairs of sequences meet again, and which lengths meet."""

import numpy as np

from bload.packing.plan import Plan


def repeat_share(plan: Plan, later: Plan) -> float:
    """Return the share of pairs with a common block in `plan` that share one in `later` too.

    Random blocks of k of n sequences give about (k - 1) / (n - 1). The plans are of the same
    lengths, such as those of two successive epochs.
    """
    first, second = np.unique(_pairs(plan)), np.unique(_pairs(later))
    return len(np.intersect1d(first, second, assume_unique=True)) / max(len(first), 1)


def partner_information(plans: list[Plan]) -> float:
    """Return the mutual information, in nats, of the lengths of two segments in a block.

    It is 0 if the length of a segment says nothing about the others in its block. Lengths are
    binned into ten classes of equal number, and pairs are weighted so that every segment counts
    once. The Miller-Madow correction (Miller, 1955) subtracts the amount expected by chance. The
    plans are of the same lengths, for instance of several epochs, which are pooled.
    """
    lengths = np.concatenate([plan.length for plan in plans])
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 11)[1:-1], method="nearest"))
    classes = len(edges) + 1
    joint = np.zeros((classes, classes))
    for plan in plans:
        segment, mate = _mates(plan)
        mates = np.diff(plan.offsets)[plan.block_of_segment()[segment]] - 1
        row = np.searchsorted(edges, plan.length[segment], side="right")
        column = np.searchsorted(edges, plan.length[mate], side="right")
        np.add.at(joint, (row, column), 1 / mates)
    if (number := joint.sum()) == 0:
        return 0.0
    p = joint / number
    expected = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    filled = p > 0
    information = float(np.sum(p[filled] * np.log(p[filled] / expected[filled])))
    by_chance = (int(filled.sum()) - 2 * classes + 1) / (2 * number)
    return float(max(information - by_chance, 0.0))


def _mates(plan: Plan) -> np.ndarray:
    """Return all ordered pairs of different segments in a block, ``(2, pairs)``."""
    sizes = np.diff(plan.offsets)
    pairs = [np.zeros((2, 0), np.int64)]
    for size in np.unique(sizes):
        start = plan.offsets[:-1][sizes == size]
        mates = np.array(np.nonzero(~np.eye(size, dtype=bool)))
        pairs.append((start[:, None] + mates[:, None]).reshape(2, -1))
    return np.concatenate(pairs, axis=1)


def _pairs(plan: Plan) -> np.ndarray:
    """Return the unordered pairs of sequences that share a block, one number per pair."""
    a, b = plan.sequence[_mates(plan)]
    pairs: np.ndarray = (a * plan.sequences + b)[a < b]
    return pairs
