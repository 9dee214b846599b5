"""Random filling: blocks one after another, each with random pieces until none fits.

    left     lengths 2 3 5, how many of each  4 1 2      room 4: five pieces fit, lengths 2 and 3
    draw     the n-th of the five, n random: n = 4 is the piece of length 3, and room 1 is left

Pieces of equal length come in a random order of their own, so only the counts of lengths change. A
Fenwick tree (Software: Practice and Experience 24, 1994) keeps their sums. Finding how many pieces
fit, and the length of the n-th, takes log2(different lengths) steps each.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from bload.errors import check_choice
from bload.packing.pieces import index_within, one_by_one, shuffled_by_length

Draw = Literal["video", "length"]


def fill(
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    draw: Draw = "video",
    rooms: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw random pieces that fit until none does, block after block.

    Args:
        lengths: frames of every piece, ``(pieces,)``, each at most `t_max`.
        draw: ``video`` draws with equal chance among the pieces that fit, ``length`` among the
            distinct lengths that fit and then among their pieces.
        rooms: free slots of the blocks to fill, ``(blocks,)``; None fills empty blocks with all.

    Returns:
        piece numbers in the order of their places, and how many are in each block, both int64.
    """
    check_choice("draw", draw, ("video", "length"))
    piece = shuffled_by_length(lengths, rng)
    sizes, first, number = np.unique(lengths[piece], return_index=True, return_counts=True)
    draws = one_by_one(lambda: rng.random(1024))
    room_of_block = itertools.repeat(t_max) if rooms is None else rooms.tolist()
    blocks = _fill(sizes.tolist(), number.tolist(), room_of_block, draw, draws)
    order = np.fromiter(itertools.chain.from_iterable(blocks), np.int64)
    counts = np.fromiter(map(len, blocks), np.int64)
    if rooms is not None:  # no piece was left for the other blocks
        counts = np.pad(counts, (0, len(rooms) - len(counts)))
    by_size = np.argsort(order, kind="stable")
    used = np.bincount(order, minlength=len(sizes))
    order[by_size] = piece[np.repeat(first, used) + index_within(used)]
    return order, counts


def _fill(
    sizes: list[int],
    number: list[int],
    rooms: Iterable[int],
    draw: Draw,
    draws: Iterator[float],
) -> list[list[int]]:
    """Fill blocks draw by draw until no piece is left; return places in `sizes`.

    ``sums[i]`` is the sum of the weights of the ``i & -i`` places before i. The weight of a place
    is its number of pieces, or 1 if lengths are drawn.
    """
    places, by_piece = len(sizes), draw == "video"
    top, remaining = 1 << places.bit_length() >> 1, sum(number)
    sums = [0, *(number if by_piece else [1] * places)]
    for i in range(1, places + 1):
        if (above := i + (i & -i)) <= places:
            sums[above] += sums[i]
    blocks = []
    for room in rooms:
        if not remaining:
            break
        block: list[int] = []
        while True:
            fitting, i = 0, bisect_right(sizes, room)
            while i:
                fitting += sums[i]
                i &= i - 1
            if not fitting:
                break
            nth, place, step = int(next(draws) * fitting), 0, top
            while step:
                if place + step <= places and sums[place + step] <= nth:
                    place += step
                    nth -= sums[place]
                step >>= 1
            block.append(place)
            room -= sizes[place]
            number[place] -= 1
            remaining -= 1
            if by_piece or not number[place]:
                i = place + 1
                while i <= places:
                    sums[i] -= 1
                    i += i & -i
        blocks.append(block)
    return blocks
