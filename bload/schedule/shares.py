"""Shares of a step's U units: the cost of each unit -> the rank that computes it, ``(U,)``.

def share(cost_U, ranks) -> rank_U
"""

import heapq
from collections.abc import Callable

import numpy as np

Share = Callable[[np.ndarray, int], np.ndarray]


def turns(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign units to ranks in turn, as cards are dealt."""
    return np.arange(len(cost_U)) % ranks


def equal(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Give all ranks equal numbers of units at about equal cost, by differencing.

    Karmarkar and Karp (1982) with equal numbers: start with groups of one unit per rank; join the
    two of largest spread, the costliest of one with the cheapest of the other.
    """
    each = -(-len(cost_U) // ranks)
    units = np.full(each * ranks, -1)
    units[: len(cost_U)] = np.argsort(-cost_U, kind="stable")
    sums = np.append(cost_U, 0.0)[units].reshape(each, ranks)
    heap = [
        (-float(sums_R.max() - sums_R.min()), k, sums_R, units_R[:, None])
        for k, (sums_R, units_R) in enumerate(zip(sums, units.reshape(each, ranks), strict=True))
    ]
    heapq.heapify(heap)
    for tie in range(each, 2 * each - 1):
        _, _, one_R, of_one = heapq.heappop(heap)
        _, _, two_R, of_two = heapq.heappop(heap)
        down, up = np.argsort(-one_R, kind="stable"), np.argsort(two_R, kind="stable")
        sums_R = one_R[down] + two_R[up]
        joined = np.concatenate([of_one[down], of_two[up]], axis=1)
        heapq.heappush(heap, (-float(sums_R.max() - sums_R.min()), tie, sums_R, joined))
    rank_U = np.zeros(len(cost_U), dtype=np.int64)
    for rank, mine in enumerate(heap[0][3]):
        rank_U[mine[mine >= 0]] = rank
    return rank_U


def free(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign the costliest unit first, to the rank that finishes it first; numbers may differ."""
    rank_U, busy_R = np.zeros(len(cost_U), dtype=np.int64), np.zeros(ranks)
    held_R = np.zeros(ranks, dtype=np.int64)
    for unit in np.argsort(-cost_U, kind="stable"):
        done_R = busy_R + cost_U[unit]
        rank = np.lexsort((held_R, done_R))[0]  # on a tie, the rank with fewest units
        rank_U[unit], busy_R[rank] = rank, done_R[rank]
        held_R[rank] += 1
    return rank_U


SHARES: dict[str, Share] = {"turns": turns, "equal": equal, "free": free}
