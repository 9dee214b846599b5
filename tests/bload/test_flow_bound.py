"""A linear program, which knows nothing of the packers, says that no packing takes fewer blocks."""

import numpy as np
import pytest

from bload import action_genome_lengths, make_plan, whole_pieces

linprog = pytest.importorskip("scipy.optimize").linprog
coo_array = pytest.importorskip("scipy.sparse").coo_array
TRAIN, RNG = action_genome_lengths(), np.random.default_rng(0)
CASES = {
    "train, split at 16": (TRAIN, 16, 10_456),
    "train, split at 32": (TRAIN, 32, 5_231),
    "train, split at 47": (TRAIN, 47, 3_549),
    "two values": (np.repeat([34, 41], 1_500), 100, 1_500),
    "33 to 46": (RNG.integers(33, 47, 3_000), 100, None),
    "33 33 33 and 40 40, or 33 33 and 40": (np.repeat([33, 40], [1500, 1500]), 100, 1250),
    "5 and 7": (np.repeat([5, 7], [1500, 1500]), 24, 750),
    "6, 7 and 10": (np.repeat([6, 7, 10], 2000), 15, 4000),
    "three": (np.array([5, 5, 5]), 9, 3),
    "one": (np.array([1]), 1, 1),
}
"""Lengths, T_max, and the fewest blocks where they are known."""


def flow_bound(size_P, t_max):
    """The least flow through the slots of a block that uses every length often enough, rounded up.

    A piece of s frames leads from slot t to t + s, an empty slot to t + 1 (arc flow; Valerio de
    Carvalho, Annals of Operations Research 86, 1999). Fractions of blocks are allowed.
    """
    size_D, count_D = np.unique(size_P, return_counts=True)
    starts = [np.arange(t_max - size + 1) for size in (*size_D, 1)]
    start_A, kind_A = np.concatenate(starts), np.repeat(np.arange(len(starts)), [*map(len, starts)])
    end_A, arc_A = start_A + np.array([*size_D, 1])[kind_A], np.arange(len(start_A))
    # Rows: what enters each slot inside leaves it, and each length is used as often as it occurs.
    enters, leaves, used = end_A < t_max, start_A > 0, kind_A < len(size_D)
    row = np.concatenate([end_A[enters], start_A[leaves], t_max + kind_A[used]]) - 1
    column = np.concatenate([arc_A[enters], arc_A[leaves], arc_A[used]])
    value = np.repeat([1, -1, 1], [enters.sum(), leaves.sum(), used.sum()])
    matrix = coo_array((value, (row, column)), (t_max - 1 + len(size_D), len(arc_A))).tocsr()
    wanted = np.concatenate([np.zeros(t_max - 1), count_D])
    found = linprog((start_A == 0).astype(float), A_eq=matrix, b_eq=wanted, method="highs")
    return int(np.ceil(found.fun - 1e-6))


@pytest.mark.parametrize("name", CASES)
def test_exact_plans_of_hard_lengths_have_the_fewest_blocks_that_are_possible(name):
    lengths, t_max, known = CASES[name]
    plan = make_plan(lengths, "bload_exact", t_max=t_max, long="split")
    fewest = flow_bound(whole_pieces(lengths, t_max, "split")[2], t_max)
    assert plan.blocks == fewest
    assert known in (None, fewest)
