"""Rounds: full blocks from random ones, all at the same time.

    |a a a a|b b b|. . .|      put in what fits     |a a a a|b b b|c|. .|
                               exchange             |a a a a|d d d d d|c|    b is loose now

A round keeps some pieces loose and cuts the others into random blocks. Each block gets loose pieces
that happen to fit. Then one of its pieces is exchanged for a loose one that is longer by the room
left. Blocks that are still not full are taken apart for the next round. Rounds get smaller by a
factor of about five, and end when few blocks become full.
"""

import numpy as np

from bload.packing.pieces import index_within

LOOSE = 0.3
"""Share of the pieces that a round keeps loose."""
FITS = 2
"""Number of loose pieces tried in each block with room."""
EXCHANGES = 3
"""Number of times that blocks with room look for an exchange."""
MAX_LEFT_OVER = 200
"""Largest number of loose pieces that do not begin another round."""
PROGRESS = 0.1
"""Share of a round's blocks that must become full for another round."""
STEPS = 48
"""Length of a line in full blocks, and so about the number of steps for any number of pieces."""
AT_ONCE = 2**17
"""Number of pieces packed at the same time, which bounds the memory."""


def full_blocks(
    size_P: np.ndarray, t_max: int, blocks: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Pack most of P pieces of `size_P` frames into full random blocks.

    Args:
        blocks: target for the number of blocks; its spare slots are shared by all blocks.

    Returns:
        the block of every piece, ``(P,)``, -1 if it is left over, and the number of blocks.
    """
    block_P = np.full(len(size_P), -1, dtype=np.int32)
    loose = rng.permutation(len(size_P)).astype(np.int32)
    frames = int(size_P.sum())
    done, spare = 0, blocks * t_max - frames
    while len(loose) > MAX_LEFT_OVER:
        remaining, tried, before = [], 0, done
        spared = spare // max(blocks - done, 1)
        for part in np.array_split(loose, -(-len(loose) // AT_ONCE)):
            packed = _Round(part, size_P, t_max)
            for _ in range(FITS):
                frames_loose = int(size_P[packed.loose].sum())
                if frames_loose * len(size_P) <= frames * len(packed.loose):
                    packed.fit()  # uses up short pieces; exchanges use long ones
            for _ in range(EXCHANGES):
                packed.exchange(rng)
            ready_B = packed.room_B <= spared
            number_B = np.where(ready_B, np.cumsum(ready_B) - 1 + done, -1)
            block_P[packed.piece] = number_B[packed.block]
            remaining += [packed.loose, packed.piece[~ready_B[packed.block]]]
            tried += len(ready_B)
            done += int(ready_B.sum())
            spare -= int(packed.room_B[ready_B].sum())
        loose = rng.permutation(np.concatenate(remaining))
        if done == before or done - before < PROGRESS * tried:
            break
    return block_P, done


def cut_line(lengths: np.ndarray, t_max: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a random order of pieces into blocks; a piece that does not fit begins the next block.

        |a a a a|b b b|. . .|d d d ...      d begins the next block

    The order is cut into lines, which are walked at the same time, one block per line and step.
    Return the first piece of every block and the one after its last, ``(blocks,)`` each. The last
    block of a line, which may be cut short, is left out with its pieces.
    """
    end_P = np.cumsum(lengths, dtype=np.int64)
    lines = 1 + int(end_P[-1]) // (t_max * STEPS)
    stop_L = len(lengths) * np.arange(1, lines + 1) // lines
    first_L = np.concatenate([[0], stop_L[:-1]])
    blocks = []
    while len(first_L):
        after_L = np.searchsorted(end_P, end_P[first_L] - lengths[first_L] + t_max, "right")
        whole = after_L < stop_L
        blocks.append((first_L[whole], after_L[whole]))
        first_L, stop_L = after_L[whole], stop_L[whole]
    first, after = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return first, after


class _Round:
    """B blocks of pieces, and loose pieces; `size_P` holds the lengths of all pieces."""

    def __init__(self, pieces: np.ndarray, size_P: np.ndarray, t_max: int) -> None:
        self.size_P, self.t_max = size_P, t_max
        first, after = cut_line(size_P[pieces[: int(len(pieces) * (1 - LOOSE))]], t_max)
        count_B = after - first
        self.block = np.repeat(np.arange(len(first)), count_B)
        placed = np.repeat(first, count_B) + index_within(count_B)
        self.piece = pieces[placed]
        self.loose = np.delete(pieces, placed)
        frames = np.bincount(self.block, size_P[self.piece], len(first))
        self.room_B = t_max - frames.astype(np.int64)

    def _put(self, loose: np.ndarray, blocks: np.ndarray) -> None:
        """Put loose pieces, given by their index in `loose`, into blocks, one piece per block."""
        new = self.loose[loose]
        self.loose = np.delete(self.loose, loose)
        self.piece = np.concatenate([self.piece, new])
        self.block = np.concatenate([self.block, blocks])
        self.room_B[blocks] -= self.size_P[new]

    def fit(self) -> None:
        """Try the next loose piece in every block with room; pieces that do not fit go last."""
        block = np.flatnonzero(self.room_B)[: len(self.loose)]
        fits = self.size_P[self.loose[: len(block)]] <= self.room_B[block]
        self._put(np.flatnonzero(fits), block[fits])
        missed = len(block) - int(fits.sum())
        self.loose = np.roll(self.loose, -missed)

    def exchange(self, rng: np.random.Generator) -> None:
        """Fill blocks: add a loose piece that fits exactly, or swap a piece for a longer one."""
        size = self.size_P[self.loose]
        self.loose = self.loose[np.argsort(size, kind="stable")]
        number = np.bincount(size, minlength=self.t_max + 1)
        # candidates: a piece to swap, by its place, or -1 to add one; and the length that is wanted
        open_B = np.flatnonzero(self.room_B)
        room = self.room_B[self.block]
        place = np.flatnonzero(room)
        wanted = np.concatenate([self.size_P[self.piece[place]] + room[place], self.room_B[open_B]])
        block = np.concatenate([self.block[place], open_B])
        place = np.concatenate([place, np.full(len(open_B), -1)])
        offered = rng.permutation(np.flatnonzero(number[np.minimum(wanted, self.t_max)] > 0))
        choice_B = np.full(len(self.room_B), -1)
        choice_B[block[offered]] = offered  # one at random for each block
        choice = choice_B[choice_B >= 0]
        choice = choice[np.argsort(wanted[choice], kind="stable")]
        wanted = wanted[choice]
        nth = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)
        gets = nth < number[wanted]  # there may be fewer loose pieces of a length
        choice, wanted, nth = choice[gets], wanted[gets], nth[gets]
        loose = (np.cumsum(number) - number)[wanted] + nth
        place, block = place[choice], block[choice]
        is_swap = place >= 0
        place, swapped = place[is_swap], loose[is_swap]
        self.piece[place], self.loose[swapped] = self.loose[swapped], self.piece[place]
        self.room_B[block[is_swap]] = 0
        self._put(loose[~is_swap], block[~is_swap])
