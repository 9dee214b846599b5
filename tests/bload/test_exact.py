"""The exact packer, part by part: rounds, squeezing, sorted lengths, recipes, few pieces."""

import numpy as np
import pytest

from bload import lower_bound, make_plan, partner_information, repeat_share
from bload.packing import bload_exact
from bload.packing.decreasing import best_fit_decreasing
from bload.packing.fewest import MAX_PIECES, fewest_blocks
from bload.packing.recipes import whole_recipes
from bload.packing.rounds import full_blocks
from bload.packing.squeeze import fullest_subset


def lognormal(number, seed=0):
    """Lengths with a heavy tail, 1 to 8,192."""
    drawn = np.random.default_rng(seed).lognormal(6.0, 1.3, number)
    return np.clip(drawn, 1, 8192).astype(np.int64)


def triplets(number, t_max, rng):
    """Three lengths above a quarter that fill a block, as often as asked."""
    low, high = t_max // 4 + 1, t_max // 2
    drawn = rng.integers(low, high, (number * 20, 2))
    last = t_max - drawn.sum(1)
    return np.column_stack([drawn, last])[(last >= low) & (last < high)][:number].ravel()


HARD = {
    "two lengths": (np.random.default_rng(0).choice([33, 40], 1000), 100),
    "33 to 46": (np.random.default_rng(1).integers(33, 47, 1000), 140),
    "uniform": (np.random.default_rng(2).integers(1, 1001, 1000), 1000),
    "triplets": (triplets(60, 1000, np.random.default_rng(3)), 1000),
    "20 to 50": (np.random.default_rng(4).integers(20, 51, 1000), 100),
}


def frames_of(home, lengths, t_max):
    """Frames of every block, after a check that none overflows or is empty."""
    frames = np.bincount(home, lengths)
    assert 1 <= frames.min() <= frames.max() <= t_max
    return frames


def plain_best_fit_decreasing(lengths, t_max):
    """Blocks of the rule, one piece at a time."""
    rooms: list[int] = []
    for length in sorted(lengths.tolist(), reverse=True):
        fits = [room for room in rooms if room >= length]
        if fits:
            rooms.remove(min(fits))
        rooms.append((min(fits) if fits else t_max) - length)
    return rooms


def test_rounds_leave_full_blocks_and_a_rest_that_does_not_grow_with_the_number():
    for number in (2_000, 20_000, 200_000):
        lengths = lognormal(number)
        bound = lower_bound(lengths, 8192)
        home, blocks = full_blocks(lengths, 8192, bound, np.random.default_rng(0))
        placed = home >= 0
        rooms = 8192 - frames_of(home[placed], lengths[placed], 8192)
        assert len(rooms) == blocks
        assert rooms.sum() <= bound * 8192 - lengths.sum()
        assert np.count_nonzero(~placed) < 700, number


def test_lengths_of_a_heavy_tail_reach_the_bound_at_random():
    lengths = lognormal(100_000)
    plans = [make_plan(lengths, "bload_exact", 8192, epoch=epoch) for epoch in range(2)]
    assert [plan.blocks for plan in plans] == [plans[0].lower_bound] * 2
    assert partner_information(plans) < 0.02
    assert repeat_share(*plans) < 0.001


def test_best_fit_decreasing_on_counts_is_the_rule_one_piece_at_a_time():
    rng = np.random.default_rng(5)
    for _ in range(200):
        t_max = int(rng.integers(1, 40))
        lengths = rng.integers(rng.integers(1, t_max + 1), t_max + 1, rng.integers(1, 120))
        home, blocks = best_fit_decreasing(lengths, t_max, rng)
        rooms = t_max - frames_of(home, lengths, t_max)
        assert len(rooms) == blocks
        assert sorted(rooms) == sorted(plain_best_fit_decreasing(lengths, t_max))


def test_best_fit_decreasing_shuffles_sequences_of_equal_length():
    homes = (
        best_fit_decreasing(np.full(6, 5), 10, np.random.default_rng(s))[0] for s in range(200)
    )
    packings = {frozenset(frozenset(np.flatnonzero(h == b)) for b in range(3)) for h in homes}
    assert len(packings) == 15  # all the ways to pair six


def every_packing(lengths, t_max):
    """The fewest blocks of all packings, by putting each piece into every block in turn."""

    def best(left, rooms, limit):
        if len(rooms) >= limit or not left:
            return min(len(rooms), limit)
        for room in {room for room in rooms if room >= left[0]}:
            others = [*rooms]
            others.remove(room)
            limit = best(left[1:], [*others, room - left[0]], limit)
        return best(left[1:], [*rooms, t_max - left[0]], limit)

    return best(sorted(lengths.tolist(), reverse=True), [], len(lengths))


def few_pieces(rng):
    t_max = int(rng.integers(4, 60))
    low = int(rng.integers(1, t_max // 2))
    return rng.integers(low, t_max - low + 2, int(rng.integers(1, MAX_PIECES + 1))), t_max


def test_few_pieces_never_take_more_than_the_fewest_blocks():
    rng = np.random.default_rng(6)
    for case in range(300):
        lengths, t_max = few_pieces(rng)
        least = every_packing(lengths, t_max)
        home, blocks = fewest_blocks(lengths, t_max, rng)
        assert len(frames_of(home, lengths, t_max)) == blocks == least, (lengths, t_max)
        plan = make_plan(lengths, "bload_exact", t_max, case)
        assert lower_bound(lengths, t_max) <= plan.blocks == least, (lengths, t_max)


@pytest.mark.parametrize("case", HARD)
def test_hard_lengths_take_bounded_work_and_no_more_blocks_than_sorted_ones(case, monkeypatch):
    lengths, t_max = HARD[case]
    pooled = []

    def counted(pool, *others):
        pooled.append(len(pool))
        return fullest_subset(pool, *others)

    monkeypatch.setattr("bload.packing.squeeze.fullest_subset", counted)
    blocks = make_plan(lengths, "bload_exact", t_max).blocks
    assert sum(pooled) <= 2 * bload_exact.WORK
    assert lower_bound(lengths, t_max) <= blocks <= len(plain_best_fit_decreasing(lengths, t_max))


def test_the_linear_program_is_a_bound_and_its_recipes_leave_few_pieces():
    rng = np.random.default_rng(7)
    for _ in range(40):
        t_max = int(rng.integers(10, 60))
        low = int(rng.integers(1, t_max // 2))
        lengths = rng.integers(low, t_max + 1, 800)
        home, blocks, least = whole_recipes(lengths, t_max, rng)
        left = home < 0
        assert len(frames_of(home[~left], lengths[~left], t_max)) == blocks
        assert (
            lower_bound(lengths, t_max) <= least <= len(plain_best_fit_decreasing(lengths, t_max))
        )
        assert least - len(np.unique(lengths)) <= blocks <= least
        assert lengths[left].sum() <= len(np.unique(lengths)) * t_max


def test_what_nothing_fits_beside_does_not_hide_the_bound():
    """Blocks of 9 of 10 slots have room that nothing fits; all the others are full."""
    lengths = np.repeat([9, 7, 3, 2], [500, 30, 30, 90])
    for seed in range(5):
        assert make_plan(lengths, "bload_exact", 10, seed).blocks == 500 + 48


def test_rounds_end_where_all_pieces_together_hardly_fill_a_block():
    for t_max in (4_900, 5_000, 9_990, 10_100):
        plan = make_plan([10] * 1000 + [5000], "bload_exact", max(t_max, 5000))
        assert plan.blocks == plan.lower_bound
