"""The end of a packing: loose pieces and blocks with room, squeezed beside some that are full."""

import numpy as np

from bload.squeeze import Chances, squeeze

MOST = 6_000
"""Pieces that are loose or in blocks with room, of which lists are made."""
PARTNERS = 3
"""Full blocks that take part in squeezing, for each of the others."""


def squeeze_tail(
    home_P: np.ndarray,
    blocks: int,
    size_P: np.ndarray,
    t_max: int,
    bound: int,
    rng: np.random.Generator,
    work: int,
) -> int:
    """Put loose pieces into blocks, empty some blocks, and return how many there are then.

    Args:
        home_P: the block of every piece, ``(pieces,)``, -1 if it is loose; changed in place.
        blocks: blocks before.
        size_P: frames of every piece, ``(pieces,)``.
        t_max: slots in a block.
        bound: blocks to stop at.
        work: of `squeeze`.
    """
    takes_part_B = np.append(_choose(home_P, blocks, size_P, t_max, rng), True)  # -1: loose
    piece = np.flatnonzero(takes_part_B[home_P])
    sizes = size_P[piece].tolist()
    size = dict(zip(piece.tolist(), sizes, strict=True))
    lists: dict[int, list[int]] = {}
    for number, home in zip(size, home_P[piece].tolist(), strict=True):
        lists.setdefault(home, []).append(number)
    loose = rng.permutation(np.array(lists.pop(-1, []), dtype=np.int64)).tolist()
    others = blocks - len(lists)
    least = max(bound - others, -(-sum(sizes) // t_max))
    start = [*_side_by_side(loose, size, t_max), *lists.values()]
    found = squeeze(start, size, t_max, least, Chances(rng), work)
    for b, block in enumerate(found):
        home_P[block] = blocks + b
    used = np.bincount(home_P) > 0
    home_P[:] = (np.cumsum(used) - 1)[home_P]
    return others + len(found)


def _choose(
    home_P: np.ndarray, blocks: int, size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> np.ndarray:
    """Return which blocks take part, ``(blocks,)``: the emptiest with room, and some at random."""
    placed = np.flatnonzero(home_P >= 0)
    home = home_P[placed]
    pieces_B = np.bincount(home, minlength=blocks)
    room_B = t_max - np.bincount(home, size_P[placed], blocks).astype(np.int64)
    open_blocks = rng.permutation(np.flatnonzero(room_B))
    open_blocks = open_blocks[np.argsort(-room_B[open_blocks], kind="stable")]
    most = MOST - (len(home_P) - len(placed))
    open_blocks = open_blocks[np.cumsum(pieces_B[open_blocks]) <= most]
    loose_blocks = -(-int(size_P.sum() - size_P[placed].sum()) // t_max)
    some = PARTNERS * (len(open_blocks) + loose_blocks)
    chosen_B = np.zeros(blocks, dtype=bool)
    chosen_B[open_blocks] = True
    chosen_B[rng.permutation(blocks)[:some]] = True
    return chosen_B


def _side_by_side(pieces: list[int], size: dict[int, int], t_max: int) -> list[list[int]]:
    """Return blocks of the pieces in their order; the next begins with what does not fit."""
    blocks: list[list[int]] = []
    room = 0
    for piece in pieces:
        if size[piece] > room:
            blocks.append([])
            room = t_max
        blocks[-1].append(piece)
        room -= size[piece]
    return blocks
