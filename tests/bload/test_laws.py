"""The laws of random packing, against chances worked out in full."""

from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import combinations, pairwise
from math import sqrt

import numpy as np
import pytest

from bload import make_plan
from bload.packing.fill import fill
from bload.packing.squeeze import fullest_subset

LENGTHS, T_MAX, EPOCHS = [4, 3, 2, 2, 2, 1], 5, 1000
ROOMS = {
    "rooms given": ([1, 1, 2, 3, 3, 5], [2, 5, 0, 4]),
    "more rooms than pieces": ([2, 1], [2, 5, 4]),
}


def chances_by_enumeration(
    lengths: list[int],
    key: Callable[[tuple], Hashable],
    draw: str = "video",
    rooms: list[int] | None = None,
) -> Counter:
    """The chance of every outcome, by following every possible draw.

    `key` makes an outcome of the blocks, each with the numbers of its pieces in the order drawn.
    """
    chances: Counter = Counter()

    def follow(left: frozenset, block: tuple, done: tuple, chance: Fraction):
        room = rooms[len(done)] if rooms else T_MAX
        fitting = [s for s in left if lengths[s] <= room - sum(lengths[i] for i in block)]
        different = {lengths[s] for s in fitting}
        for s in fitting:
            alike = sum(lengths[other] == lengths[s] for other in fitting)
            ways = len(fitting) if draw == "video" else len(different) * alike
            follow(left - {s}, (*block, s), done, chance / ways)
        if not fitting:
            done = (*done, block)
            if len(done) == len(rooms) if rooms else not left:
                chances[key(done)] += chance
            else:
                follow(left, (), done, chance)

    follow(frozenset(range(len(lengths))), (), (), Fraction(1))
    assert sum(chances.values()) == 1
    return chances


def distance(drawn: Counter, chances: dict) -> float:
    """Standard deviations by which chi square lies above its mean; rare outcomes are pooled."""
    number = sum(drawn.values())
    assert set(drawn) <= set(chances)
    cells = np.array([(drawn[x], number * float(c)) for x, c in chances.items()])
    rare = cells[:, 1] < 5
    cells = np.array([*cells[~rare], *([cells[rare].sum(0)] if rare.any() else [])])
    square = ((cells[:, 0] - cells[:, 1]) ** 2 / cells[:, 1]).sum()
    return float((square - len(cells) + 1) / sqrt(2 * (len(cells) - 1)))


@pytest.mark.parametrize(("draw", "other"), [("video", "length"), ("length", "video")])
def test_packings_come_with_the_chances_of_their_law(draw, other):
    def sets(blocks):
        return frozenset(map(frozenset, blocks))

    plans = [make_plan(LENGTHS, "bload", T_MAX, 1, epoch, draw=draw) for epoch in range(EPOCHS)]
    drawn = Counter(sets(p.block(b).sequence.tolist() for b in range(p.num_blocks)) for p in plans)
    chances = chances_by_enumeration(LENGTHS, sets, draw)
    assert len(chances) == 9
    assert distance(drawn, chances) < 5
    # the measure can tell: the other law is far outside
    assert distance(drawn, chances_by_enumeration(LENGTHS, sets, other)) > 19


@pytest.mark.parametrize(("lengths", "rooms"), ROOMS.values(), ids=ROOMS)
def test_rooms_are_filled_with_the_chances_of_the_law(lengths, rooms):
    def by_length(blocks):
        return tuple(tuple(lengths[piece] for piece in block) for block in blocks)

    rng, drawn = np.random.default_rng(1), Counter()
    for _ in range(1500):
        order, counts = fill(np.array(lengths), T_MAX, rng, rooms=np.array(rooms))
        ends = np.cumsum([0, *counts])
        drawn[by_length(order[low:high] for low, high in pairwise(ends))] += 1
    assert distance(drawn, chances_by_enumeration(lengths, by_length, rooms=rooms)) < 4.5


def test_every_fullest_subset_is_drawn_by_a_fair_coin():
    """Pieces that are alike are drawn alike; of a whole block and its parts, each half the time."""
    chances = iter(np.random.default_rng(0).random, None)
    alike = dict.fromkeys(combinations(range(6), 3), 1 / 20)
    for sizes, law in [([1] * 6, alike), ([3, 1, 1, 1], {(0,): 0.5, (1, 2, 3): 0.5})]:
        drawn: Counter = Counter()
        for _ in range(EPOCHS):
            subset, rest, left = fullest_subset([*range(len(sizes))], sizes, 3, chances)
            assert (sorted(subset + rest), left) == ([*range(len(sizes))], 0)
            drawn[tuple(sorted(subset))] += 1
        assert distance(drawn, law) < 5, sizes


def test_segments_of_an_exact_block_stand_in_random_order():
    """Under the random fill a 6 comes before its 4 more often, for after a 4 a 5 fits as well."""
    plans = [make_plan([6, 5, 5, 4], "bload_exact", 10, epoch=epoch) for epoch in range(800)]
    blocks = [plan.block(b).length.tolist() for plan in plans for b in range(plan.num_blocks)]
    pairs = Counter(tuple(block) for block in blocks if 6 in block)
    assert distance(pairs, {(6, 4): 0.5, (4, 6): 0.5}) < 5


def test_exact_packing_keeps_the_random_blocks_where_sorted_ones_are_no_fewer():
    """A 6 and a 7 share a block as often as squeezing lets them; sorted by length they never do."""
    plans = [make_plan([6, 7, 10] * 20, "bload_exact", 15, epoch=epoch) for epoch in range(10)]
    assert {plan.num_blocks for plan in plans} == {40}
    shared = [sorted(p.block(b).length) == [6, 7] for p in plans for b in range(p.num_blocks)]
    assert sum(shared) > 80  # of 400 blocks
