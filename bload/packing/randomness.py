"""Measures of randomness: how often pairs of sequences meet again, and which lengths meet."""

import numpy as np

from bload.packing.plan import Plan


def repeat_share(plan: Plan, later: Plan) -> float:
    """Return the share of pairs with a common block in `plan` that share one in `later` too.

    Random blocks of k of n sequences give about (k - 1) / (n - 1).

    Args:
        plan: plan of an epoch.
        later: another plan of the same lengths, such as that of the next epoch.
    """
    first, second = np.unique(_pairs(plan)), np.unique(_pairs(later))
    if len(first) == 0:
        return 0.0
    return len(np.intersect1d(first, second, assume_unique=True)) / len(first)


def partner_information(plans: list[Plan]) -> float:
    """Return the mutual information, in nats, of the lengths of two segments in a block.

    It is 0 if the length of a segment says nothing about the others in its block. Lengths are
    binned into ten classes of equal number, and pairs are weighted so that every segment counts
    once. The Miller-Madow correction (Miller, 1955) subtracts the amount expected by chance.

    Args:
        plans: plans of the same lengths, for instance of several epochs, which are pooled.
    """
    lengths = np.concatenate([plan.length for plan in plans])
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 11)[1:-1], method="nearest"))
    classes = len(edges) + 1
    joint = np.zeros((classes, classes))
    for plan in plans:
        segment, mate = _mates(plan)
        if len(segment) == 0:
            continue
        mates = np.diff(plan.offsets)[plan.block_of_segment()[segment]] - 1
        row = np.searchsorted(edges, plan.length[segment], side="right")
        column = np.searchsorted(edges, plan.length[mate], side="right")
        np.add.at(joint, (row, column), 1 / mates)
    if joint.sum() == 0:
        return 0.0
    number = joint.sum()
    p = joint / number
    expected = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    filled = p > 0
    information = float(np.sum(p[filled] * np.log(p[filled] / expected[filled])))
    by_chance = (int(filled.sum()) - 2 * classes + 1) / (2 * number)
    return float(max(information - by_chance, 0.0))


def _mates(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return all ordered pairs of different segments in a block."""
    sizes = np.diff(plan.offsets)
    segments, mates = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for size in np.unique(sizes[sizes > 1]):
        start = plan.offsets[:-1][sizes == size]
        i, j = np.nonzero(~np.eye(size, dtype=bool))
        segments.append((start[:, None] + i).ravel())
        mates.append((start[:, None] + j).ravel())
    return np.concatenate(segments), np.concatenate(mates)


def _pairs(plan: Plan) -> np.ndarray:
    """Return the unordered pairs of sequences that share a block, one number per pair."""
    segment, mate = _mates(plan)
    a, b = plan.sequence[segment], plan.sequence[mate]
    keep = a < b
    pairs: np.ndarray = a[keep] * plan.sequences + b[keep]
    return pairs
