"""Shares of a step's U units: the cost of each unit -> the rank that computes it, ``(U,)``.

def share(cost_U, ranks) -> rank_U
"""

import heapq

import numpy as np


def round_robin(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign units to ranks in turn, as cards are dealt."""
    return np.arange(len(cost_U)) % ranks


def equal_counts(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Give all ranks equal numbers of units at about equal cost, by differencing.

    Karmarkar and Karp (1982) with equal numbers: start with groups of one unit per rank; join the
    two of largest spread, the costliest of one with the cheapest of the other.
    """
    groups = -(-len(cost_U) // ranks)
    units = np.full(groups * ranks, -1)
    units[: len(cost_U)] = np.argsort(-cost_U, kind="stable")
    sums = np.append(cost_U, 0.0)[units].reshape(groups, ranks)
    heap = [
        (-float(sums_R.max() - sums_R.min()), k, sums_R, units_R[:, None])
        for k, (sums_R, units_R) in enumerate(zip(sums, units.reshape(groups, ranks), strict=True))
    ]
    heapq.heapify(heap)
    for tie in range(groups, 2 * groups - 1):
        _, _, first_R, first_units = heapq.heappop(heap)
        _, _, second_R, second_units = heapq.heappop(heap)
        down, up = np.argsort(-first_R, kind="stable"), np.argsort(second_R, kind="stable")
        sums_R = first_R[down] + second_R[up]
        joined = np.concatenate([first_units[down], second_units[up]], axis=1)
        heapq.heappush(heap, (-float(sums_R.max() - sums_R.min()), tie, sums_R, joined))
    rank_U = np.zeros(len(cost_U), dtype=np.int64)
    for rank, units in enumerate(heap[0][3]):
        rank_U[units[units >= 0]] = rank
    return rank_U


def greedy(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign the costliest unit first, to the rank that finishes it first; numbers may differ."""
    rank_U, load_R = np.zeros(len(cost_U), dtype=np.int64), np.zeros(ranks)
    count_R = np.zeros(ranks, dtype=np.int64)
    for unit in np.argsort(-cost_U, kind="stable"):
        done_R = load_R + cost_U[unit]
        rank = np.lexsort((count_R, done_R))[0]  # on a tie, the rank with fewest units
        rank_U[unit], load_R[rank] = rank, done_R[rank]
        count_R[rank] += 1
    return rank_U
