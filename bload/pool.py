"""The pieces that random filling draws from, known by their lengths alone."""

import numpy as np

TABLE = 2**22
"""Slots below which a table says how many lengths fit."""
NOBODY = 2**31 - 1
"""In place of a block that took a piece: none did."""


class Pool:
    """The pieces left, in places of ascending length.

    Args:
        sizes: distinct lengths, ascending, ``(sizes,)``.
        number: pieces of each, ``(sizes,)``.
    """

    def __init__(self, sizes: np.ndarray, number: np.ndarray) -> None:
        self.sizes, self.number = sizes, number
        self.list: list[int] = sizes.tolist()
        self.longest = self.list[-1] if self.list else 0
        rooms = np.arange(self.longest + 1 if self.longest < TABLE else 0)
        self.table = np.searchsorted(sizes, rooms, side="right")
        self.taken = np.full(int(number.sum()) + 1, NOBODY, dtype=np.int32)
        """The first block that took each place; one place more that is never taken."""
        self.take(np.zeros(0, np.int64))

    def take(self, rank: np.ndarray) -> None:
        """Take pieces out, given by the places of their lengths in `sizes`."""
        self.number = self.number - np.bincount(rank, minlength=len(self.sizes))
        self.upto = np.concatenate([[0], np.cumsum(self.number)])
        """Number of pieces shorter than each of `sizes`, and of all."""
        narrow = np.uint16 if len(self.sizes) < 2**16 else np.int32
        self.rank = np.repeat(np.arange(len(self.sizes), dtype=narrow), self.number)
        self.left, self.frames = len(self.rank), int(self.number @ self.sizes)

    def fitting(self, room: np.ndarray) -> np.ndarray:
        """Return how many pieces fit into each room."""
        if len(self.table):
            sizes = self.table[np.minimum(room, self.longest)]
        else:
            sizes = np.searchsorted(self.sizes, room, side="right")
        pieces: np.ndarray = self.upto[sizes]
        return pieces
