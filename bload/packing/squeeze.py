"""Squeezing: pools two blocks at a time until a bound is reached or the work is done.

    |a a a a|b b b|c|. .|      |a a a a|b b b|c|f f|
    |d d d d d d d|. . .|  ->  |d d d d d d d|g g g|
    |f f|g g g|. . . . .|

Every move pools two blocks, mostly the emptiest and a random one. One block gets the fullest subset
of the pool that fits, drawn at random if there are several; the other gets the rest. Empty blocks
are dropped, and the packing stays valid. The sums that a pool can reach are the bits of one int.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from bload.packing.pieces import next_fit, one_by_one

PARTNER_WITH_ROOM = 0.8
"""Share of moves that pool a random block with room. The others pool the emptiest with any
block, mostly a full one, so that it gets lengths that fit the last gaps."""
STIR = 0.5
"""Share of these moves that pool it with any block, not the emptiest, to move gaps about."""
BITS = 10_000
"""Slots in a block at which finding the sums costs as much as all other work on a piece."""
WORK = 20_000
"""Pieces pooled before giving up, each counted ``1 + t_max // BITS`` times; Action Genome: 600."""
MAX_PIECES = 6_000
"""Largest number of pieces that take part, loose or in blocks with room."""
PARTNERS = 3
"""Random blocks that take part, for each block with room."""


def squeeze(
    blocks: list[list[int]],
    size: dict[int, int],
    t_max: int,
    bound: int,
    draws: Iterator[float],
) -> None:
    """Pool pairs of blocks, in place, until `bound` blocks are left or the work is done.

    Args:
        blocks: one list of piece numbers per block.
        size: frames of every piece.
        draws: random numbers from 0 to 1.
    """
    room = [t_max - sum(size[piece] for piece in block) for block in blocks]
    # Both contain every block with room, and stale entries, which are dropped when drawn.
    with_room = [b for b in range(len(blocks)) if room[b]]
    emptiest_first = [(-room[b], b) for b in with_room]
    heapify(emptiest_first)
    work = WORK // (1 + t_max // BITS)
    while len(blocks) > bound and work > 0:
        work -= 1
        while (b := emptiest_first[0][1]) >= len(room) or -emptiest_first[0][0] != room[b]:
            heappop(emptiest_first)
        giver, taker = emptiest_first[0][1], int(next(draws) * len(blocks))
        if next(draws) < PARTNER_WITH_ROOM:
            pick = int(next(draws) * len(with_room))
            if with_room[pick] >= len(blocks) or not room[with_room[pick]]:
                with_room[pick] = with_room[-1]
                with_room.pop()
                continue
            if next(draws) < STIR:
                giver = with_room[pick]
            else:
                taker = with_room[pick]
        if giver == taker:
            continue
        pool = blocks[giver] + blocks[taker]
        work -= len(pool)
        fuller, rest, room_left = fullest_subset(pool, size, t_max, draws)
        if not room[giver]:
            with_room.append(giver)  # the giver gains room; the taker never does
        blocks[giver], room[giver] = rest, room[giver] + room[taker] - room_left
        blocks[taker], room[taker] = fuller, room_left
        if not rest:
            blocks[giver], room[giver] = blocks[-1], room[-1]
            blocks.pop()
            room.pop()
        for b in (giver, taker):
            if b < len(blocks) and room[b]:
                heappush(emptiest_first, (-room[b], b))


def fullest_subset(
    pool: list[int], size: dict[int, int], t_max: int, draws: Iterator[float]
) -> tuple[list[int], list[int], int]:
    """Return the fullest subset of a pool that fits into a block, the rest, and the room left.

    Bit s of ``reach[i]`` is set if some of the first i pieces, in random order, sum to s. A fair
    coin for each piece chooses among several fullest subsets.
    """
    for i in range(len(pool) - 1, 0, -1):
        j = int(next(draws) * (i + 1))
        pool[i], pool[j] = pool[j], pool[i]
    fits = (1 << (t_max + 1)) - 1
    reach = [1]
    for piece in pool:
        sums = reach[-1]
        reach.append((sums | (sums << size[piece])) & fits)
    target = reach[-1].bit_length() - 1
    room = t_max - target
    subset, rest = [], []
    for i in range(len(pool) - 1, -1, -1):
        piece = pool[i]
        can_skip = reach[i] >> target & 1
        remaining = target - size[piece]
        can_take = remaining >= 0 and reach[i] >> remaining & 1
        if can_take and (not can_skip or next(draws) < 0.5):
            subset.append(piece)
            target = remaining
        else:
            rest.append(piece)
    return subset, rest, room


def squeeze_tail(
    block_P: np.ndarray,
    blocks: int,
    size_P: np.ndarray,
    t_max: int,
    bound: int,
    rng: np.random.Generator,
) -> int:
    """Put loose pieces into blocks, empty some blocks, and return the new number of blocks.

    Args:
        block_P: block of every piece, -1 if it is loose; changed in place.
        size_P: frames of every piece.
    """
    takes_part_B = np.append(_choose(block_P, blocks, size_P, t_max, rng), True)  # index -1: loose
    piece = np.flatnonzero(takes_part_B[block_P])
    size = dict(zip(piece.tolist(), size_P[piece].tolist(), strict=True))
    lists: dict[int, list[int]] = {}
    for number, block in zip(size, block_P[piece].tolist(), strict=True):
        lists.setdefault(block, []).append(number)
    loose = rng.permutation(np.array(lists.pop(-1, []), dtype=np.int64))
    bounds = pairwise(next_fit(size_P[loose], t_max))
    untouched = blocks - len(lists)
    least = max(bound - untouched, -(-sum(size.values()) // t_max))
    squeezed = [*(loose[begin:end].tolist() for begin, end in bounds), *lists.values()]
    squeeze(squeezed, size, t_max, least, one_by_one(lambda: rng.random(4096)[::-1]))
    for b, pieces in enumerate(squeezed):
        block_P[pieces] = blocks + b
    used = np.bincount(block_P) > 0
    block_P[:] = (np.cumsum(used) - 1)[block_P]
    return untouched + len(squeezed)


def _choose(
    block_P: np.ndarray, blocks: int, size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> np.ndarray:
    """Choose blocks that take part, bool ``(blocks,)``: the emptiest with room, and random ones."""
    placed = np.flatnonzero(block_P >= 0)
    block = block_P[placed]
    pieces_B = np.bincount(block, minlength=blocks)
    room_B = t_max - np.bincount(block, size_P[placed], blocks).astype(np.int64)
    open_blocks = rng.permutation(np.flatnonzero(room_B))
    open_blocks = open_blocks[np.argsort(-room_B[open_blocks], kind="stable")]
    limit = MAX_PIECES - (len(block_P) - len(placed))
    open_blocks = open_blocks[np.cumsum(pieces_B[open_blocks]) <= limit]
    loose_blocks = -(-int(size_P.sum() - size_P[placed].sum()) // t_max)
    partners = PARTNERS * (len(open_blocks) + loose_blocks)
    chosen_B = np.zeros(blocks, dtype=bool)
    chosen_B[open_blocks] = True
    chosen_B[rng.permutation(blocks)[:partners]] = True
    return chosen_B
