"""Sequences longer than a block: refused, cut into pieces, or truncated."""

from typing import Literal

import numpy as np

from bload.errors import InputError, TooLongError

LongWithoutCarry = Literal["error", "split", "truncate"]
Long = Literal["error", "split", "truncate", "carry"]
"""Treatment of sequences longer than a block, see `whole_pieces`."""
Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]
MAX_PIECES = 10**8
"""Largest number of pieces in a plan."""


def index_within(counts: np.ndarray) -> np.ndarray:
    """Return 0 to ``count - 1`` for every count, one after another."""
    index: np.ndarray = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return index


def shuffled_by_length(lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the pieces from the shortest to the longest, those of equal length at random."""
    order = rng.permutation(len(lengths))
    return order[np.argsort(lengths[order], kind="stable")]


def check_pieces(pieces: np.ndarray, t_max: int) -> None:
    """Raise InputError if the pieces of all sequences, ``(sequences,)``, are too many to plan."""
    if pieces.sum() > MAX_PIECES:
        raise InputError(
            f"t_max = {t_max} cuts the sequences into {pieces.sum():,} pieces; raise "
            f"t_max so that there are at most {MAX_PIECES:,}"
        )


def whole_pieces(
    lengths: np.ndarray, t_max: int, long: Long = "error", carry: bool = True
) -> Pieces:
    """Return the pieces to pack, none longer than `t_max`.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        t_max: slots in a block.
        long: ``error`` refuses sequences longer than `t_max`. ``split`` cuts them into pieces of
            `t_max` frames and a rest, each with its own start: nothing is deleted, but the
            recurrent state is cleared at every cut. ``truncate`` keeps the first `t_max` frames and
            counts the rest as deleted. `bload.packing.carry` handles ``carry``.
        carry: True if error messages may offer ``long="carry"``.

    Returns:
        sequence, first frame and length of every piece, each int64 ``(pieces,)``.
    """
    if long == "split":
        pieces = -(-lengths // t_max)
        check_pieces(pieces, t_max)
        sequence = np.repeat(np.arange(len(lengths)), pieces)
        first = index_within(pieces) * t_max
        return sequence, first, np.minimum(lengths[sequence] - first, t_max)
    if long not in ("error", "truncate"):
        choices = "error, split, carry" if carry else "error, split"
        raise InputError(f"long is {long!r}; choose {choices} or truncate")
    if long == "error" and lengths.max() > t_max:
        s = int(np.argmax(lengths > t_max))
        raise TooLongError(s, int(lengths[s]), int(lengths.max()), t_max, carry)
    sequence = np.arange(len(lengths))
    return sequence, np.zeros_like(lengths), np.minimum(lengths, t_max)
