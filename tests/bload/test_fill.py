"""Random filling: every outcome comes with the chance that the rule gives it."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from bload.packing.fill import fill

INSTANCES = {
    "rooms given": ([1, 1, 2, 3, 3, 5], 5, [2, 5, 0, 4]),
    "more rooms than pieces": ([2, 1], 5, [2, 5, 4]),
    "empty blocks": ([1, 1, 2, 2, 2, 3, 4], 5, None),
}
DRAWS = 1500


def chances_by_enumeration(lengths, t_max, rooms) -> dict[tuple, Fraction]:
    """The chance of every outcome, as lengths in the order in which they are drawn."""
    chances: Counter = Counter()

    def follow(left: tuple, room: int, block: tuple, done: tuple, chance: Fraction):
        for size in {size for size in left if size <= room}:
            i, share = left.index(size), Fraction(left.count(size), sum(s <= room for s in left))
            follow((*left[:i], *left[i + 1 :]), room - size, (*block, size), done, chance * share)
        if not left or min(left) > room:
            done = (*done, block)
            if len(done) == len(rooms) if rooms else not left:
                chances[done] += chance
            else:
                follow(left, rooms[len(done)] if rooms else t_max, (), done, chance)

    follow(tuple(lengths), rooms[0] if rooms else t_max, (), (), Fraction(1))
    assert sum(chances.values()) == 1
    return chances


def outcome(lengths, order, counts) -> tuple:
    ends = np.cumsum([0, *counts])
    return tuple(tuple(lengths[i] for i in order[a:b]) for a, b in pairwise(ends))


def distance(drawn: Counter, chances: dict) -> float:
    """Standard deviations by which chi square lies above its mean; rare outcomes are pooled."""
    number = sum(drawn.values())
    assert set(drawn) <= set(chances)
    cells = np.array([(drawn[x], number * float(c)) for x, c in chances.items()])
    rare = cells[:, 1] < 5
    cells = np.array([*cells[~rare], *([cells[rare].sum(0)] if rare.any() else [])])
    square = ((cells[:, 0] - cells[:, 1]) ** 2 / cells[:, 1]).sum()
    return float((square - len(cells) + 1) / sqrt(2 * (len(cells) - 1)))


@pytest.mark.parametrize("instance", INSTANCES)
def test_every_outcome_comes_with_its_chance(instance):
    lengths, t_max, rooms = INSTANCES[instance]
    given = None if rooms is None else np.array(rooms)
    rng = np.random.default_rng(1)
    drawn: Counter = Counter()
    for _ in range(DRAWS):
        drawn[outcome(lengths, *fill(np.array(lengths), t_max, rng, rooms=given))] += 1
    assert distance(drawn, chances_by_enumeration(lengths, t_max, rooms)) < 4.5
