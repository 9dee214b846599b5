"""The measures of randomness themselves: high where they should be, low where they should be."""

import numpy as np
import pytest

from bload import Plan, action_genome_lengths, make_plan, partner_information, repeat_share
from bload.packing.decreasing import best_fit_decreasing

LENGTHS = action_genome_lengths("train")


def plan_of(order, offsets, lengths=LENGTHS):
    """Whole sequences in the order given, cut into blocks by the offsets."""
    return Plan(14_000, lengths, order, np.zeros(len(order)), lengths[order], offsets)


def shuffled_plan(seed, lengths=LENGTHS, size=4):
    """Blocks of as many sequences drawn regardless of length."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    return plan_of(order, np.arange(0, len(order) + 1, size), lengths)


def test_best_fit_decreasing_groups_lengths_and_shuffled_blocks_do_not():
    home, _ = best_fit_decreasing(LENGTHS, 94, np.random.default_rng(0))
    ordered = plan_of(np.argsort(home), np.cumsum([0, *np.bincount(home)]))
    assert partner_information([ordered]) > 0.5
    assert partner_information([shuffled_plan(seed) for seed in range(4)]) < 0.002
    assert partner_information([make_plan(LENGTHS, "naive")]) == 0.0


def test_information_of_two_kinds_is_that_of_a_fair_coin_and_counts_every_segment_once():
    pairs, crowd = np.repeat([2, 5], 2000), np.tile([2, 5], 2000)
    in_pairs = plan_of(np.arange(4000), np.arange(0, 4001, 2), pairs)
    assert partner_information([in_pairs]) == pytest.approx(np.log(2), abs=0.002)
    # half of the segments in pairs of equal lengths, half in blocks of forty of both lengths
    offsets = np.concatenate([np.arange(0, 4000, 2), np.arange(4000, 8001, 40)])
    mixed = plan_of(np.arange(8000), offsets, np.concatenate([pairs, crowd]))
    same = 0.5 + 0.5 * 19 / 39
    expected = np.log(2) + same * np.log(same) + (1 - same) * np.log(1 - same)
    assert partner_information([mixed]) == pytest.approx(expected, abs=0.002)


def test_chance_alone_is_taken_away_from_few_pairs():
    # 400 shuffled pairs: the corrected estimate has a mean of 0.014, the plain one of 0.063
    plans = [shuffled_plan(seed, np.arange(1, 801), size=2) for seed in range(20)]
    assert np.mean([partner_information([plan]) for plan in plans]) < 0.03


def test_pairs_repeat_wholly_in_the_same_plan_and_hardly_in_a_shuffled_one():
    one, two, naive = shuffled_plan(0), shuffled_plan(1), make_plan(LENGTHS, "naive")
    assert (repeat_share(one, one), repeat_share(naive, one)) == (1.0, 0.0)
    assert repeat_share(one, two) == pytest.approx(3 / (len(LENGTHS) - 1), abs=0.0008)
    orders = [0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2]
    pairs, crossed, half = (
        plan_of(np.array(order), [0, 2, len(order)], np.ones(4, int)) for order in orders
    )
    assert repeat_share(pairs, crossed) == 0.0
    assert (repeat_share(pairs, half), repeat_share(half, pairs)) == (0.5, 1.0)
