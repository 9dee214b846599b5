"""The laws of random packing, against chances worked out in full."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
import pytest

from bload import make_plan, partner_information
from bload.packing.squeeze import BulkRandom, fullest_subset

LENGTHS, T_MAX, EPOCHS = [4, 3, 2, 2, 2, 1], 5, 1000


def chances_by_enumeration(draw: str) -> Counter[frozenset[frozenset[int]]]:
    """The chance of every packing of LENGTHS, by following every possible draw."""
    chances: Counter = Counter()

    def follow(left: frozenset, block: frozenset, done: frozenset, chance: Fraction):
        room = T_MAX - sum(LENGTHS[s] for s in block)
        fitting = [s for s in left if LENGTHS[s] <= room]
        if not fitting and left:
            follow(left, frozenset(), done | {block}, chance)
        elif not fitting:
            chances[done | {block}] += chance
        different = {LENGTHS[s] for s in fitting}
        for s in fitting:
            alike = sum(LENGTHS[other] == LENGTHS[s] for other in fitting)
            ways = len(fitting) if draw == "video" else len(different) * alike
            follow(left - {s}, block | {s}, done, chance / ways)

    follow(frozenset(range(len(LENGTHS))), frozenset(), frozenset(), Fraction(1))
    assert sum(chances.values()) == 1
    return chances


def chi_square(drawn: Counter, chances: dict) -> float:
    number = sum(drawn.values())
    assert set(drawn) <= set(chances)
    return float(sum((drawn[x] - number * c) ** 2 / (number * c) for x, c in chances.items()))


def bar(kinds: int) -> float:
    """Chi square of that many kinds five standard deviations above its mean."""
    return kinds - 1 + 5 * sqrt(2 * (kinds - 1))


@pytest.mark.parametrize(("draw", "other"), [("video", "length"), ("length", "video")])
def test_packings_come_with_the_chances_of_their_law(draw, other):
    plans = [make_plan(LENGTHS, "bload", T_MAX, 1, epoch, draw=draw) for epoch in range(EPOCHS)]
    drawn = Counter(
        frozenset(frozenset(p.block(b).sequence.tolist()) for b in range(p.blocks)) for p in plans
    )
    chances = chances_by_enumeration(draw)
    assert len(chances) == 9
    assert chi_square(drawn, chances) < bar(9)
    # the measure can tell: the other law is far outside
    assert chi_square(drawn, chances_by_enumeration(other)) > 3 * bar(9)


def test_every_fullest_subset_is_drawn_by_a_fair_coin():
    """Pieces that are alike are drawn alike; of a whole block and its parts, each half the time."""
    chances = BulkRandom(np.random.default_rng(0))
    alike = dict.fromkeys(combinations(range(6), 3), 1 / 20)
    for sizes, law in [([1] * 6, alike), ([3, 1, 1, 1], {(0,): 0.5, (1, 2, 3): 0.5})]:
        drawn: Counter = Counter()
        for _ in range(EPOCHS):
            subset, rest, left = fullest_subset([*range(len(sizes))], sizes, 3, chances)
            assert (sorted(subset + rest), left) == ([*range(len(sizes))], 0)
            drawn[tuple(sorted(subset))] += 1
        assert chi_square(drawn, law) < bar(len(law)), sizes


def test_segments_of_an_exact_block_stand_in_random_order():
    """Under the random fill a 6 comes before its 4 more often, for after a 4 a 5 fits as well."""
    plans = [make_plan([6, 5, 5, 4], "bload_exact", 10, epoch=epoch) for epoch in range(800)]
    blocks = [plan.block(b).length.tolist() for plan in plans for b in range(plan.blocks)]
    pairs = Counter(tuple(block) for block in blocks if 6 in block)
    assert chi_square(pairs, {(6, 4): 0.5, (4, 6): 0.5}) < bar(2)


def test_exact_packing_keeps_the_random_blocks_where_sorted_ones_are_no_fewer():
    """A 6 and a 7 share a block as often as squeezing lets them; sorted by length they never do."""
    plans = [make_plan([6, 7, 10] * 20, "bload_exact", 15, epoch=epoch) for epoch in range(10)]
    assert {plan.blocks for plan in plans} == {40}
    assert partner_information(plans) < 0.57
