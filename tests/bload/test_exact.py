"""The lower bound, and the exact packer on hard lengths, beside sorted ones, on long tails."""

import math

import numpy as np
import pytest

from bload import make_plan
from bload.packing.bounds import lower_bound
from bload.packing.decreasing import best_fit_decreasing
from bload.packing.squeeze import WORK, fullest_subset

HARD = {
    "two lengths": (np.random.default_rng(0).choice([33, 40], 1000), 100),
    "33 to 46": (np.random.default_rng(1).integers(33, 47, 1000), 140),
    "uniform": (np.random.default_rng(2).integers(1, 1001, 1000), 1000),
}


def plain_best_fit_decreasing(lengths, t_max):
    """Rooms of the blocks by the rule, one piece at a time."""
    rooms: list[int] = []
    for length in sorted(lengths.tolist(), reverse=True):
        fits = [room for room in rooms if room >= length]
        if fits:
            rooms.remove(min(fits))
        rooms.append((min(fits) if fits else t_max) - length)
    return rooms


def test_best_fit_decreasing_on_counts_is_the_rule_one_piece_at_a_time():
    rng = np.random.default_rng(5)
    for _ in range(200):
        t_max = int(rng.integers(1, 40))
        lengths = rng.integers(rng.integers(1, t_max + 1), t_max + 1, rng.integers(1, 120))
        block_P, blocks = best_fit_decreasing(lengths, t_max, rng)
        rooms = t_max - np.bincount(block_P, lengths)
        assert len(rooms) == blocks
        assert sorted(rooms) == sorted(plain_best_fit_decreasing(lengths, t_max))


@pytest.mark.parametrize("case", HARD)
def test_hard_lengths_take_bounded_work_and_no_more_blocks_than_sorted_ones(case, monkeypatch):
    lengths, t_max = HARD[case]
    pooled = []

    def count(pool, *others):
        pooled.append(len(pool))
        return fullest_subset(pool, *others)

    monkeypatch.setattr("bload.packing.squeeze.fullest_subset", count)
    blocks = make_plan(lengths, "bload_exact", t_max).num_blocks
    assert sum(pooled) <= 2 * WORK
    assert lower_bound(lengths, t_max) <= blocks <= len(plain_best_fit_decreasing(lengths, t_max))


def test_the_bound_is_reached_by_a_heavy_tail_and_beside_lengths_that_nothing_fits_beside():
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, 100_000).clip(1, 8192)
    plan = make_plan(drawn.astype(int), "bload_exact", 8192)
    assert plan.num_blocks == plan.lower_bound
    lengths = np.repeat([9, 7, 3, 2], [500, 30, 30, 90])  # beside a 9 of 10 nothing fits
    assert {make_plan(lengths, "bload_exact", 10, seed).num_blocks for seed in range(5)} == {548}
    for t_max in (5_000, 9_990, 10_100):  # all together hardly fill a block
        plan = make_plan([10] * 1000 + [5000], "bload_exact", t_max)
        assert plan.num_blocks == plan.lower_bound


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
