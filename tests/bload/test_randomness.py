"""The measures of randomness against values known in closed form."""

import numpy as np
import pytest

from bload import Plan
from bload.show.randomness import partner_information, repeat_share


def plan_of(order, offsets, lengths):
    """Whole sequences in the order given, cut into blocks by the offsets."""
    return Plan(2_000, lengths, order, np.zeros(len(order)), lengths[order], offsets)


def test_information_of_two_lengths_is_that_of_a_coin_and_counts_every_segment_once():
    pairs, crowd = np.repeat([2, 5], 2000), np.tile([2, 5], 2000)
    # half of the segments in pairs of equal lengths, half in blocks of forty of both lengths
    offsets = np.concatenate([np.arange(0, 4000, 2), np.arange(4000, 8001, 40)])
    mixed = plan_of(np.arange(8000), offsets, np.concatenate([pairs, crowd]))
    same = 0.5 + 0.5 * 19 / 39
    expected = np.log(2) + same * np.log(same) + (1 - same) * np.log(1 - same)
    assert partner_information([mixed]) == pytest.approx(expected, abs=0.002)


def test_chance_alone_is_taken_away_from_few_pairs():
    # 400 shuffled pairs: the corrected estimate has a mean of 0.014, the plain one of 0.063
    lengths, offsets = np.arange(1, 801), np.arange(0, 801, 2)
    orders = [np.random.default_rng(seed).permutation(800) for seed in range(20)]
    found = [partner_information([plan_of(order, offsets, lengths)]) for order in orders]
    assert 0 < np.mean(found) < 0.03


def test_the_share_of_pairs_that_meet_again_by_hand():
    orders = [0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2]
    pairs, crossed, half = (
        plan_of(np.array(order), [0, 2, len(order)], np.ones(4, int)) for order in orders
    )
    assert repeat_share(pairs, crossed) == 0.0
    assert (repeat_share(pairs, half), repeat_share(half, pairs)) == (0.5, 1.0)
