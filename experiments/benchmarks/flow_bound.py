"""A lower bound on the blocks of any packing, by linear programming, independent of the packers.

A block is a way through its slots: a piece of s frames leads from slot t to t + s, an empty slot to
t + 1. Blocks together are a flow through all slots that uses every length as often as there are
pieces (arc flow; Valerio de Carvalho, Annals of Operations Research 86, 1999). Fractions of blocks
are allowed, so the least flow, rounded up, is a bound.
"""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

MOST = 20_000
"""Ways from slot to slot above which the program would take minutes."""
CLOSE = 1e-6
"""Rounding that is overlooked."""


def flow_bound(size_P: np.ndarray, t_max: int) -> int | None:
    """Return a number of blocks that no packing goes below; None if that would take too long.

    Args:
        size_P: frames of every piece, ``(pieces,)``.
        t_max: slots in a block.
    """
    size_D, count_D = np.unique(size_P, return_counts=True)
    if len(size_D) * t_max > MOST:
        return None
    starts = [np.arange(t_max - size + 1) for size in (*size_D, 1)]
    ends = [start + size for start, size in zip(starts, (*size_D, 1), strict=True)]
    start_A, end_A = np.concatenate(starts), np.concatenate(ends)
    kind_A = np.repeat(np.arange(len(starts)), [len(start) for start in starts])
    arc_A, arcs = np.arange(len(start_A)), len(start_A)
    used = kind_A < len(size_D)
    # Rows: what enters each slot inside leaves it, and each length is used as often as it occurs.
    enters, leaves = end_A < t_max, start_A > 0
    row = np.concatenate([end_A[enters], start_A[leaves], t_max + kind_A[used]]) - 1
    column = np.concatenate([arc_A[enters], arc_A[leaves], arc_A[used]])
    value = np.repeat([1, -1, 1], [enters.sum(), leaves.sum(), used.sum()])
    matrix = coo_array((value, (row, column)), shape=(t_max - 1 + len(size_D), arcs)).tocsr()
    wanted = np.concatenate([np.zeros(t_max - 1), count_D])
    found = linprog((start_A == 0).astype(float), A_eq=matrix, b_eq=wanted, method="highs")
    return int(np.ceil(found.fun - CLOSE))
