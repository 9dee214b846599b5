"""Random filling draws many blocks at a time, with the law of drawing pieces one by one."""

from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations
from math import sqrt

import numpy as np
import pytest

import bload.fill
from bload import action_genome_lengths
from bload.fill import fill

INSTANCES = {
    "lengths that repeat": ([1, 1, 2, 2, 2, 3, 4], 5, None),
    "all lengths differ": ([1, 2, 3, 4, 5, 6], 7, None),
    "short ones run out": ([4, 4, 4, 4, 1, 2], 6, None),
    "rooms given": ([1, 1, 2, 3, 3, 5], 5, [2, 5, 0, 4]),
    "more rooms than pieces": ([2, 1], 5, [2, 5, 4]),
    "one block holds all": ([1, 1, 2], 9, None),
}
DRAWS = 1500


@pytest.fixture
def many_at_a_time(monkeypatch):
    """Let tiny pools be drawn as large ones are, with batches that take nearly all of them."""
    monkeypatch.setattr(bload.fill, "FEW", 0)
    monkeypatch.setattr(bload.fill, "SIDE_BY_SIDE", 1)

    def share(of_pool: float):
        monkeypatch.setattr(bload.fill, "SHARE", of_pool)

    return share


def one_by_one(lengths, t_max, rng, rooms=None) -> list[list[int]]:
    """The rule as it reads: each piece that is left and fits, with equal chance."""
    left = sorted(range(len(lengths)), key=lambda i: lengths[i])
    sizes, blocks = sorted(lengths), []
    while left if rooms is None else len(blocks) < len(rooms):
        room, block = t_max if rooms is None else rooms[len(blocks)], []
        while fitting := bisect_right(sizes, room):
            at = rng.integers(fitting)
            room -= sizes.pop(at)
            block.append(left.pop(at))
        blocks.append(block)
    return blocks


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


@pytest.mark.parametrize("of_pool", [0.4, 0.9])
@pytest.mark.parametrize("instance", INSTANCES)
def test_every_outcome_comes_with_its_chance(instance, of_pool, many_at_a_time):
    many_at_a_time(of_pool)
    lengths, t_max, rooms = INSTANCES[instance]
    given = None if rooms is None else np.array(rooms)
    rng = np.random.default_rng(1)
    drawn: Counter = Counter()
    for _ in range(DRAWS):
        drawn[outcome(lengths, *fill(np.array(lengths), t_max, rng, rooms=given))] += 1
    assert distance(drawn, chances_by_enumeration(lengths, t_max, rooms)) < 4.5


def test_pieces_of_one_length_are_drawn_alike(many_at_a_time):
    many_at_a_time(0.4)
    rng = np.random.default_rng(2)
    drawn = Counter(tuple(fill(np.ones(4, int), 2, rng)[0].tolist()) for _ in range(DRAWS))
    assert distance(drawn, dict.fromkeys(permutations(range(4)), Fraction(1, 24))) < 4.5


@pytest.mark.parametrize("t_max", [94, 188])
def test_large_pools_have_the_blocks_and_the_segments_of_drawing_one_by_one(t_max):
    """Means over several plans of figures of the blocks, the first half of them apart."""
    lengths = np.tile(action_genome_lengths(), 2)
    rng = np.random.default_rng(3)

    def figures(sizes: list[list[int]]) -> list[float]:
        counts = [len(block) for block in sizes]
        last = [block[-1] for block in sizes]
        half = len(sizes) // 2
        return [len(sizes), np.var(counts), np.mean(last), np.mean(last[:half]), counts.count(1)]

    many, few = [], []
    for _ in range(12):
        order, counts = fill(lengths, t_max, rng)
        assert (np.bincount(order) == 1).all()
        assert len(order) == counts.sum() == len(lengths)
        blocks = np.split(lengths[order], np.cumsum(counts)[:-1])
        assert max(block.sum() for block in blocks) <= t_max
        many.append(figures(blocks))
    for _ in range(6):
        blocks = one_by_one(lengths.tolist(), t_max, rng)
        few.append(figures([lengths[block] for block in blocks]))
    off = np.mean(many, axis=0) - np.mean(few, axis=0)
    spread = np.sqrt(np.var(many, axis=0, ddof=1) / 12 + np.var(few, axis=0, ddof=1) / 6)
    assert np.all(np.abs(off) < 4.5 * spread), off / spread
