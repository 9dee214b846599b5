"""The lower bound and the exact packer against the true minimum of small cases."""

import math

import numpy as np
import pytest

from bload import lower_bound, make_plan


def fewest_blocks(lengths: list[int], t_max: int) -> int:
    """The true minimum, by trying every assignment."""
    lengths = sorted(lengths, reverse=True)
    best = len(lengths)

    def place(i: int, rooms: list[int]):
        nonlocal best
        if len(rooms) >= best:
            return
        if i == len(lengths):
            best = len(rooms)
            return
        for room in set(rooms):
            if room >= lengths[i]:
                b = rooms.index(room)
                place(i + 1, [*rooms[:b], room - lengths[i], *rooms[b + 1 :]])
        place(i + 1, [*rooms, t_max - lengths[i]])

    place(0, [])
    return best


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


def tiny_cases(number: int):
    rng = np.random.default_rng(2024)
    for _ in range(number):
        t_max = int(rng.integers(1, 16))
        low = int(rng.integers(1, t_max + 1))
        high = int(rng.integers(low, t_max + 1))
        yield rng.integers(low, high + 1, int(rng.integers(1, 10))).tolist(), t_max


def test_bound_never_exceeds_the_true_minimum():
    for lengths, t_max in tiny_cases(300):
        assert lower_bound(np.array(lengths), t_max) <= fewest_blocks(lengths, t_max)


def test_bound_is_the_literal_one():
    for lengths, t_max in tiny_cases(600):
        assert lower_bound(np.array(lengths), t_max) == literal_bound(lengths, t_max), (
            lengths,
            t_max,
        )


def test_exact_packer_reaches_the_true_minimum_of_tiny_cases():
    missed = 0
    for seed, (lengths, t_max) in enumerate(tiny_cases(300)):
        plan = make_plan(lengths, "bload_exact", t_max, seed=seed)
        least = fewest_blocks(lengths, t_max)
        assert plan.blocks >= least
        missed += plan.blocks > least
    assert missed <= 3


@pytest.mark.parametrize(
    ("lengths", "t_max", "blocks"),
    [
        ([], 5, 0),
        ([5], 5, 1),
        ([1], 1, 1),
        ([1, 1, 1], 1, 3),
        ([3, 3, 3], 5, 3),  # one to a block, though 9 frames fill two
        ([4, 4, 4, 4], 11, 2),
        ([4, 4, 4, 4, 4], 11, 3),  # two to a block, though 20 frames fill two
        ([7, 7, 4, 4], 10, 3),  # nothing fits beside a 7: only L2 sees it
        ([2] * 7, 10**8, 1),
    ],
)
def test_bound_by_hand(lengths, t_max, blocks):
    assert lower_bound(np.array(lengths, dtype=np.int64), t_max) == blocks


def test_random_packing_is_never_below_the_exact_one():
    for lengths, t_max in tiny_cases(80):
        exact = make_plan(lengths, "bload_exact", t_max).blocks
        assert make_plan(lengths, "bload", t_max).blocks >= exact or exact == fewest_blocks(
            lengths, t_max
        )


def test_exact_packer_is_no_worse_than_bload_where_the_bound_is_out_of_reach():
    rng = np.random.default_rng(5)
    for low, high in [(11, 20), (6, 14), (7, 9)]:
        lengths = rng.integers(low, high + 1, 120)
        exact = make_plan(lengths, "bload_exact", 20)
        assert exact.blocks <= make_plan(lengths, "bload", 20).blocks
