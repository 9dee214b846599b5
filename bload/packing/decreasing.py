"""Best-fit decreasing: the longest piece first, each into the fullest block with room for it.

|d d d d d d d d|a|.|
|e e e e e e|b b b|.|      equal blocks are handled as one group, so the cost grows with
|e e e e e e|b b b|.|      the number of different lengths, not of pieces
"""

import numpy as np

from bload.packing.pieces import index_within, shuffled_by_length

Recipe = tuple["Recipe", int, int] | None
"""Contents of each block in a group: the recipe before, a length, and its number of pieces."""


def best_fit_decreasing(
    size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return the block of each of P pieces of `size_P` frames, and the number of blocks.

    Pieces of equal length come in random order.
    """
    sizes, counts = np.unique(size_P, return_counts=True)
    entries, blocks = [], 0
    for number, recipe in _groups(sizes.tolist(), counts.tolist(), t_max):
        while recipe is not None:
            recipe, size, times = recipe
            entries.append((size, times, blocks, number))
        blocks += number
    size_E, times_E, first_E, number_E = np.array(entries).T
    block_C = np.repeat(first_E, number_E) + index_within(number_E)
    times_C = np.repeat(times_E, number_E)
    places, longs = np.repeat([block_C, np.repeat(size_E, number_E)], times_C, axis=1)
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
