"""The measures of randomness themselves: high where they should be, low where they should be."""

import numpy as np
import pytest

from bload import Plan, action_genome_lengths, make_plan, partner_information, repeat_share
from bload.packers.bload_exact import best_fit_decreasing
from bload.pieces import whole_pieces
from bload.plan import plan_from_blocks

LENGTHS = action_genome_lengths("train")


def sorted_plan(epoch: int) -> Plan:
    blocks = best_fit_decreasing(LENGTHS, 94, np.random.default_rng(epoch))
    return plan_from_blocks(blocks, whole_pieces(LENGTHS, 94), LENGTHS, 94)


def shuffled_plan(epoch: int) -> Plan:
    """Blocks of four sequences drawn regardless of length."""
    order = np.random.default_rng(epoch).permutation(len(LENGTHS))
    return Plan(
        4 * 94,
        LENGTHS,
        order,
        np.zeros_like(order),
        LENGTHS[order],
        np.arange(0, len(order) + 1, 4),
    )


def test_lengths_choose_their_company_under_best_fit_decreasing():
    assert partner_information([sorted_plan(0)]) > 0.5
    assert partner_information([sorted_plan(e) for e in range(3)]) > 0.5


def test_lengths_say_nothing_about_shuffled_company():
    assert partner_information([shuffled_plan(e) for e in range(4)]) < 0.002


@pytest.mark.parametrize("draw", ["video", "length"])
def test_bload_company_is_nearly_free(draw):
    information = partner_information(
        [make_plan(LENGTHS, "bload", epoch=e, draw=draw) for e in range(3)]
    )
    assert information < (0.02 if draw == "video" else 0.2)


def test_information_of_two_kinds_is_that_of_a_fair_coin():
    """Equal lengths share blocks, half and half: log 2."""
    lengths = np.repeat([2, 5], 2000)
    plan = Plan(10, lengths, np.arange(4000), np.zeros(4000), lengths, np.arange(0, 4001, 2))
    assert partner_information([plan]) == pytest.approx(np.log(2), abs=0.002)


def test_every_segment_counts_once_however_many_its_mates():
    """Half of the segments in pairs of equal lengths, half in blocks of forty of both lengths."""
    pairs, crowd = np.repeat([2, 5], 2000), np.tile([2, 5], 2000)
    lengths = np.concatenate([pairs, crowd])
    offsets = np.concatenate([np.arange(0, 4000, 2), np.arange(4000, 8001, 40)])
    plan = Plan(140, lengths, np.arange(8000), np.zeros(8000), lengths, offsets)
    same = 0.5 + 0.5 * 19 / 39
    expected = np.log(2) + same * np.log(same) + (1 - same) * np.log(1 - same)
    assert partner_information([plan]) == pytest.approx(expected, abs=0.002)


def test_chance_alone_is_taken_away_from_few_pairs():
    """Of 400 shuffled pairs the corrected estimate is 0.014 in the mean, the plain one 0.063."""
    lengths = np.arange(1, 801)
    found = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(800)
        plan = Plan(1600, lengths, order, np.zeros(800), lengths[order], np.arange(0, 801, 2))
        found.append(partner_information([plan]))
    assert np.mean(found) < 0.03


def test_information_of_sequences_alone_is_zero():
    assert partner_information([make_plan(LENGTHS, "naive")]) == 0.0


def test_pairs_repeat_wholly_in_the_same_plan_and_hardly_in_a_shuffled_one():
    one, two = shuffled_plan(0), shuffled_plan(1)
    assert repeat_share(one, one) == 1.0
    assert repeat_share(one, two) == pytest.approx(3 / (len(LENGTHS) - 1), abs=0.0008)
    assert repeat_share(make_plan(LENGTHS, "naive"), one) == 0.0


def test_half_the_pairs_repeated_is_a_half():
    lengths = np.ones(4, int)

    def paired(order):
        return Plan(2, lengths, order, np.zeros(4), lengths, [0, 2, 4])

    assert repeat_share(paired([0, 1, 2, 3]), paired([3, 2, 1, 0])) == 1.0
    assert repeat_share(paired([0, 1, 2, 3]), paired([0, 2, 1, 3])) == 0.0
    three = Plan(2, lengths, [0, 1, 2], np.zeros(3), np.ones(3, int), [0, 2, 3])
    assert repeat_share(paired([0, 1, 2, 3]), three) == 0.5
