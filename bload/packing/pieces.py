"""Pieces: the sequences, or parts of those longer than a block; and what several packers share."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from bload.errors import InputError, any_of, check_choice

LongWithoutCarry = Literal["error", "split", "truncate"]
Long = Literal["error", "split", "truncate", "carry"]
"""Treatment of sequences longer than a block, see `whole_pieces`."""
Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]


def index_within(counts: np.ndarray) -> np.ndarray:
    """Return 0 to ``count - 1`` for every count, one after another."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


def shuffled_by_length(lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the pieces from the shortest to the longest, those of equal length at random."""
    order = rng.permutation(len(lengths))
    return order[np.argsort(lengths[order], kind="stable")]


def next_fit(lengths: np.ndarray, t_max: int) -> np.ndarray:
    """Put pieces into blocks in their order; one that does not fit begins the next block.

    Return offsets, ``(blocks + 1,)``: block b holds the pieces ``offsets[b]:offsets[b + 1]``.
    """
    ends, offsets = np.append(0, np.cumsum(lengths)), [0]
    while offsets[-1] < len(lengths):
        offsets.append(int(np.searchsorted(ends, ends[offsets[-1]] + t_max, side="right")) - 1)
    return np.array(offsets)


def one_by_one(draw: Callable[[], np.ndarray]) -> Iterator[float]:
    """Yield the numbers that `draw` draws in bulk, because single draws are slow in Python."""
    while True:
        yield from draw().tolist()


def check_fit(
    lengths: np.ndarray,
    t_max: int,
    long: str | None = "error",
    names: Sequence[str] | None = None,
    multiple_of: int = 1,
    carries: bool = True,
) -> None:
    """Raise InputError if a sequence is longer than a block and `long` is ``error``.

    Args:
        names: names of the sequences in the message, in place of their numbers.
        multiple_of: slots of every segment are a multiple of this, so that none can be cut.
        carries: ``long="carry"`` is a way out, as the packer makes no batches.
    """
    if long == "error" and (longest := int(lengths.max())) > t_max:
        s = int(np.argmax(lengths > t_max))
        name = names[s] if names else s
        longest = -(-longest // multiple_of) * multiple_of
        ways = ["truncate"] if multiple_of > 1 else ["split", *["carry"] * carries, "truncate"]
        raise InputError(
            f"sequence {name} has {lengths[s]} frames but t_max is {t_max}; raise it to "
            f"{longest}, the longest, or set long={any_of(ways)}"
        )


def whole_pieces(lengths: np.ndarray, t_max: int, long: Long = "error") -> Pieces:
    """Return the pieces to pack, none longer than `t_max`.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        long: ``error`` refuses sequences longer than `t_max`. ``split`` cuts them into pieces of
            `t_max` frames and a rest, each with its own start: nothing is deleted, but the
            recurrent state is cleared at every cut. ``truncate`` keeps the first `t_max` frames and
            counts the rest as deleted. `make_plan` handles ``carry``.

    Returns:
        sequence, first frame and length of every piece, each int64 ``(pieces,)``.
    """
    if long == "split":
        pieces = -(-lengths // t_max)
        sequence = np.repeat(np.arange(len(lengths)), pieces)
        first = index_within(pieces) * t_max
        return sequence, first, np.minimum(lengths[sequence] - first, t_max)
    check_choice("long", long, get_args(LongWithoutCarry))
    check_fit(lengths, t_max, long)
    sequence = np.arange(len(lengths))
    return sequence, np.zeros_like(lengths), np.minimum(lengths, t_max)
