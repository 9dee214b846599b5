"""Random filling: blocks one after another, each with random pieces that fit until none does.

A million pieces are drawn many blocks at a time, with the law of drawing them one by one:

* Blocks draw ahead side by side, each as if it were the first: a draw takes one of the pieces in
  the pool that fit with equal chance, and a piece may be drawn twice.
* Then the blocks are gone through in order. A draw whose piece an earlier draw has taken counts for
  nothing, so the one that counts is uniform among the pieces that fit and are left; what the block
  had drawn after it is drawn anew. Whether a draw is kept depends on the draws before it alone, so
  those that are kept and those drawn anew are both as random as if they were made now.

Only blocks that share a piece with another are touched in the second step. A batch of blocks takes
a small share of the pool, so these are few. The pool knows lengths alone; which of the pieces of a
length come when is a permutation of its own.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Literal

import numpy as np

from bload.errors import check_choice, spell
from bload.pool import NOBODY, Pool

Draw = Literal["video", "length"]
FEW = 4096
"""Pieces that are drawn one by one."""
SHARE = 0.015
"""Share of the pool that a batch of blocks takes, about."""
MOST = 2**16
"""Blocks of a batch."""
SIDE_BY_SIDE = 64
"""Blocks of a batch below which nothing is drawn ahead."""
MISSES = 3
"""Draws in a row that count for nothing before the pieces that would count are listed."""


def fill(
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    draw: Draw = "video",
    rooms: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw pieces among those that fit until none does, block after block.

    Args:
        lengths: frames of every piece, ``(pieces,)``, each at most `t_max`.
        draw: ``video`` takes every piece that fits with equal chance, ``length`` every distinct
            length that fits and then one of its pieces.
        rooms: free slots of the blocks to fill, ``(blocks,)``; None: empty ones, until no piece is
            left.

    Returns:
        The numbers of the pieces in the order in which they stand, and how many each block holds,
        both int64.
    """
    check_choice(spell("draw"), draw, ("video", "length"))
    piece = rng.permutation(len(lengths))
    of_piece = lengths[piece]
    by_length = _sorted(of_piece)
    piece, of_piece = piece[by_length], of_piece[by_length]
    first = np.flatnonzero(np.diff(of_piece, prepend=0))
    pool = Pool(of_piece[first], np.diff(first, append=len(piece)))
    chances = _chances(rng)
    ranks, counts, done = [], [], 0
    blocks = len(lengths) if rooms is None else len(rooms)
    while draw == "video" and done < blocks and pool.left > FEW:
        batch = min(int(SHARE * pool.frames / t_max) + 1, MOST, blocks - done)
        room = np.full(batch, t_max) if rooms is None else rooms[done : done + batch]
        rank, count = _fill_batch(pool, room, rng, chances)
        pool.take(rank)
        ranks.append(rank)
        counts.append(count)
        done += batch
    rest = itertools.repeat(t_max) if rooms is None else iter(rooms[done:].tolist())
    filled = _one_by_one(pool, rest, chances, draw)
    ranks.append(np.fromiter(itertools.chain.from_iterable(filled), pool.rank.dtype))
    counts.append(np.fromiter(map(len, filled), np.int64))
    if rooms is not None:  # nothing was left for the others
        counts.append(np.zeros(blocks - done - len(filled), np.int64))
    rank = np.concatenate(ranks)
    if len(rank) < len(piece):  # of each length the first that were drawn
        used = np.bincount(rank, minlength=len(first))
        piece = piece[np.arange(len(rank)) + np.repeat(first - np.cumsum(used) + used, used)]
    order = np.empty_like(piece)
    order[_sorted(rank)] = piece
    return order, np.concatenate(counts)


def _sorted(values: np.ndarray) -> np.ndarray:
    """Return the order of ascending values; two bytes are sorted by their digits, which is fast."""
    short = values.max(initial=0) < 2**16
    return np.argsort(values.astype(np.uint16) if short else values, kind="stable")


def _chances(rng: np.random.Generator) -> Iterator[float]:
    """Yield uniform numbers, drawn many at a time: one at a time is slow in Python."""
    while True:
        yield from rng.random(1024).tolist()


def _one_by_one(
    pool: Pool, rooms: Iterable[int], chances: Iterator[float], draw: Draw
) -> list[list[int]]:
    """Fill blocks as `fill` says, draw by draw; return lists of places in ``pool.sizes``."""
    number, each = pool.number.tolist(), draw == "video"
    ranks = [i for i, n in enumerate(number) for _ in range(n if each else 1)]
    sizes, blocks = [pool.list[i] for i in ranks], []
    for room in rooms:
        if not ranks:
            break
        block = []
        while fitting := bisect_right(sizes, room):
            at = int(next(chances) * fitting)
            rank = ranks[at]
            room -= sizes[at]
            block.append(rank)
            number[rank] -= 1
            if each or not number[rank]:
                del sizes[at], ranks[at]
        blocks.append(block)
    return blocks


def _fill_batch(
    pool: Pool, room: np.ndarray, rng: np.random.Generator, chances: Iterator[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Fill blocks; return places in ``pool.sizes``, block after block, and how many in each.

    Args:
        room: free slots of every block, ``(blocks,)``.
    """
    blocks, taken = len(room), pool.taken
    block, pick, left = _draw_ahead(pool, room if blocks >= SIDE_BY_SIDE else room[:0], rng)
    start = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=blocks))])
    at = np.arange(len(pick), dtype=np.int32)
    taken[pick[::-1]] = at[::-1]
    late = np.flatnonzero(taken[pick] != at)
    taken[pick[::-1]] = block[::-1]
    again, nth = np.unique(block[late], return_index=True)
    lost = dict(zip(again.tolist(), late[nth].tolist(), strict=True))
    if not len(pick):
        lost = dict.fromkeys(range(blocks), 0)
    keeps, drawn = _redraw(pool, lost, room, pick, left, start, chances)

    changed = np.fromiter(keeps, np.int64)
    new = np.fromiter(itertools.chain.from_iterable(drawn), np.int32)
    taken[pick] = taken[new] = NOBODY
    kept_to = start[1:].copy()
    kept_to[changed] = [*keeps.values()]
    more = np.zeros(blocks, np.int64)
    more[changed] = [*map(len, drawn)]
    kept = at < kept_to[block]
    new_block = np.repeat(changed, more[changed]).astype(np.uint16)
    order = np.argsort(np.concatenate([block[kept], new_block]), kind="stable")
    return pool.rank[np.concatenate([pick[kept], new])[order]], kept_to - start[:-1] + more


def _draw_ahead(
    pool: Pool, room: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fill every block as if it were the first.

    Returns:
        Block, place in the pool and room before it of each draw, block after block.
    """
    block = np.arange(len(room), dtype=np.uint16)
    columns = [(block[:0], np.zeros(0, dtype=np.int32), room[:0])]
    while len(block):
        number = pool.fitting(room)
        is_open = np.flatnonzero(number)
        if len(is_open) < len(block):
            block, room, number = block[is_open], room[is_open], number[is_open]
        pick = (rng.random(len(block)) * number).astype(np.int32)
        columns.append((block, pick, room))
        room = room - pool.sizes[pool.rank[pick]]
    block, pick, room = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(block, kind="stable")
    return block[order], pick[order], room[order]


def _redraw(
    pool: Pool,
    lost: dict[int, int],
    room: np.ndarray,
    pick: np.ndarray,
    left: np.ndarray,
    start: np.ndarray,
    chances: Iterator[float],
) -> tuple[dict[int, int], list[list[int]]]:
    """Go through the blocks that have lost a draw, in order.

    Args:
        lost: by block, ascending, where in `pick` the first draw stands that an earlier one beats.
        room: free slots of every block.
        pick: draws of all blocks, those of block b from ``start[b]`` to ``start[b + 1]``.
        left: the room before each draw.

    Returns:
        By block, where in `pick` the draws end that it keeps; and what each of them takes then.
    """
    size, upto, ends = pool.list, pool.upto.tolist(), start[1:].tolist()
    ranks, owner = pool.rank.data, pool.taken.data
    again, robbed, front = [*lost], set(), 0
    keeps: dict[int, int] = {}
    drawn: list[list[int]] = []
    while again:
        b = heappop(again)
        if b in keeps:
            continue
        keep = lost.get(b, ends[b])
        if b in robbed:
            first = int(start[b])
            keep = next((i for i in range(first, keep) if owner[pick[i]] != b), keep)
        draws = pick[keep : ends[b]].tolist()
        space = int(left[keep]) if draws else int(room[b])
        for piece in draws:
            if owner[piece] == b:
                owner[piece] = NOBODY
        for piece in pick[start[b] : keep].tolist():  # drawn again later, it was set free
            owner[piece] = b
        draws.reverse()
        mine: list[int] = []
        while owner[front] < b:
            front += 1
        low, misses = front, 0  # no piece before it is left
        while True:
            if draws:
                piece = draws.pop()
            else:
                while owner[low] <= b:
                    low += 1
                number = upto[bisect_right(size, space)] - low
                if number <= 0:
                    break
                piece = low + int(next(chances) * number)
                if misses > MISSES:
                    free = np.flatnonzero(pool.taken[low : low + number] > b)
                    piece = low + int(free[int(next(chances) * len(free))])
            if owner[piece] <= b:
                draws.clear()
                misses += 1
                continue
            if owner[piece] < NOBODY:
                robbed.add(owner[piece])
                heappush(again, owner[piece])
            owner[piece] = b
            space -= size[ranks[piece]]
            mine.append(piece)
            misses = 0
        keeps[b] = keep
        drawn.append(mine)
    return keeps, drawn
