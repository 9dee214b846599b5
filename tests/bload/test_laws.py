"""The two laws by which bload fills a block, against chances worked out in full."""

from collections import Counter
from fractions import Fraction
from math import sqrt

import pytest

from bload import make_plan

LENGTHS = [4, 3, 2, 2, 2, 1]
T_MAX = 5
EPOCHS = 3000

Packing = frozenset[frozenset[int]]


def chances_by_enumeration(draw: str) -> dict[Packing, Fraction]:
    """The chance of every packing of LENGTHS, by following every possible draw."""
    chances: Counter[Packing] = Counter()

    def follow(left: frozenset[int], block: frozenset[int], done: Packing, chance: Fraction):
        room = T_MAX - sum(LENGTHS[s] for s in block)
        fitting = [s for s in left if LENGTHS[s] <= room]
        if not fitting:
            done |= {block}
            if left:
                follow(left, frozenset(), done, chance)
            else:
                chances[done] += chance
            return
        different = {LENGTHS[s] for s in fitting}
        for s in fitting:
            alike = sum(LENGTHS[other] == LENGTHS[s] for other in fitting)
            share = (
                Fraction(1, len(fitting))
                if draw == "video"
                else Fraction(1, len(different) * alike)
            )
            follow(left - {s}, block | {s}, done, chance * share)

    follow(frozenset(range(len(LENGTHS))), frozenset(), frozenset(), Fraction(1))
    assert sum(chances.values()) == 1
    return chances


def packings_drawn(draw: str) -> Counter[Packing]:
    drawn: Counter[Packing] = Counter()
    for epoch in range(EPOCHS):
        plan = make_plan(LENGTHS, "bload", T_MAX, seed=1, epoch=epoch, draw=draw)
        drawn[
            frozenset(frozenset(plan.block(b).sequence.tolist()) for b in range(plan.blocks))
        ] += 1
    return drawn


def chi_square(drawn: Counter[Packing], chances: dict[Packing, Fraction]) -> float:
    return float(sum((drawn[p] - EPOCHS * c) ** 2 / (EPOCHS * c) for p, c in chances.items()))


@pytest.mark.parametrize(("draw", "other"), [("video", "length"), ("length", "video")])
def test_packings_come_with_the_chances_of_their_law(draw, other):
    drawn, chances = packings_drawn(draw), chances_by_enumeration(draw)
    assert set(drawn) <= set(chances)
    freedom = len(chances) - 1
    assert freedom == 8
    bar = freedom + 5 * sqrt(2 * freedom)
    assert chi_square(drawn, chances) < bar
    # the measure can tell: the other law is far outside
    assert chi_square(drawn, chances_by_enumeration(other)) > 3 * bar


def test_the_first_block_is_begun_by_every_sequence_alike():
    # One sequence a block: which comes first is then the draw (or the order) alone.
    first = Counter(int(make_plan([5] * 6, "bload", 5, epoch=e).sequence[0]) for e in range(EPOCHS))
    expected = EPOCHS / 6
    assert sum((first[s] - expected) ** 2 / expected for s in range(6)) < 5 + 5 * sqrt(10)
