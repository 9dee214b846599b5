"""Best-fit decreasing: the longest piece first, each into the fullest block with room for it.

|d d d d d d d d|a|.|
|e e e e e e|b b b|.|      equal blocks are handled as one group, so the cost grows with
|e e e e e e|b b b|.|      the number of different lengths, not of pieces
"""

import numpy as np

from bload.packing.pieces import shuffled_by_length

Recipe = tuple["Recipe", int, int] | None
"""Contents of each block in a group: the recipe before, a length, and its number of pieces."""


def best_fit_decreasing(
    size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return the block of each of P pieces of `size_P` frames, and the number of blocks.

    Pieces of equal length come in random order.
    """
    sizes, counts = np.unique(size_P, return_counts=True)
    groups = _groups(sizes.tolist(), counts.tolist(), t_max)
    length, block, pieces, copies = [], [], [], []
    blocks = 0
    for number, recipe in groups:
        while recipe is not None:
            recipe, size, times = recipe
            length.append(size)
            block.append(blocks)
            copies.append(number)
            pieces.append(times)
        blocks += number
    copies_E = np.array(copies)
    block_C = np.arange(copies_E.sum()) + np.repeat(
        np.array(block) - np.cumsum(copies_E) + copies_E, copies_E
    )
    times_C = np.repeat(pieces, copies_E)
    places = np.repeat(block_C, times_C)
    longs = np.repeat(np.repeat(length, copies_E), times_C)
    block_P = np.empty(len(size_P), dtype=np.int32)
    block_P[shuffled_by_length(size_P, rng)] = places[np.argsort(longs, kind="stable")]
    return block_P, blocks


def _groups(sizes: list[int], counts: list[int], t_max: int) -> list[tuple[int, Recipe]]:
    """Return number of blocks and recipe of each group of equal blocks; `sizes` ascend."""
    with_room: dict[int, list[tuple[int, Recipe]]] = {}
    full: list[tuple[int, Recipe]] = []
    rooms = 0  # bit r is set if some block has r free slots
    for size, count in zip(reversed(sizes), reversed(counts), strict=True):
        while count:
            enough = rooms >> size
            if enough:
                room = size + (enough & -enough).bit_length() - 1
                number, recipe = with_room[room].pop()
            else:
                room, number, recipe = t_max, count, None
            times = min(room // size, count)  # the fullest block stays the fullest
            used = min(number, count // times)
            count -= used * times
            for rest, blocks, contents in (
                (room - times * size, used, (recipe, size, times)),
                (room, number - used if enough else 0, recipe),
            ):
                if blocks and rest:
                    with_room.setdefault(rest, []).append((blocks, contents))
                    rooms |= 1 << rest
                elif blocks:
                    full.append((blocks, contents))
            if enough and not with_room[room]:
                rooms &= ~(1 << room)
    return full + [group for groups in with_room.values() for group in groups]
