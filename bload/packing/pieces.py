"""Sequences longer than a block: refused, cut into pieces, or truncated."""

from typing import Literal

import numpy as np

from bload.errors import InputError, TooLongError

LongWithoutCarry = Literal["error", "split", "truncate"]
Long = Literal["error", "split", "truncate", "carry"]
"""Treatment of sequences longer than a block, see `whole_pieces`."""
Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]
MOST_PIECES = 10**8
"""Largest number of pieces in a plan."""


def check_pieces(pieces: np.ndarray, t_max: int) -> None:
    """Raise InputError if the pieces of all sequences, ``(sequences,)``, are too many to plan."""
    if pieces.sum() > MOST_PIECES:
        raise InputError(
            f"t_max = {t_max} cuts the sequences into {pieces.sum():,} pieces; raise "
            f"t_max so that there are at most {MOST_PIECES:,}"
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
        nth = np.arange(len(sequence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        first = nth * t_max
        return sequence, first, np.minimum(lengths[sequence] - first, t_max)
    if long not in ("error", "truncate"):
        raise InputError(f"long is {long!r}; choose error, split{', carry' * carry} or truncate")
    if long == "error" and lengths.max() > t_max:
        s = int(np.argmax(lengths > t_max))
        raise TooLongError(s, int(lengths[s]), int(lengths.max()), t_max, carry)
    sequence = np.arange(len(lengths))
    return sequence, np.zeros_like(lengths), np.minimum(lengths, t_max)
