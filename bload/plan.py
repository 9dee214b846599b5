"""The plan of an epoch: the place of every frame, known before any file is read.

    block 0   |a a a a|b b b|c|. .|      a, b, c segments; . padding; `|` before a letter: a start
    block 1   |d d d d d d d d|e e|

A segment is a run of frames of one sequence; a block has ``t_max`` slots. A plan consists of flat
arrays, so ten million sequences fit, and it checks itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bload.bounds import lower_bound
from bload.errors import InputError

MOST_FRAMES = 10**15
"""Frames of a data set above which counts of slots could overflow."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of `t_max` slots: its segments in slot order. A filler has none.

    All arrays are int64, ``(segments,)``.
    """

    index: int
    """Position in the plan; -1 for a filler."""
    t_max: int
    """Slots of the block."""
    sequence: np.ndarray
    """Number of each segment's sequence in the data set."""
    first: np.ndarray
    """Frame of the sequence at which the segment begins."""
    length: np.ndarray
    """Frames of each segment."""

    @property
    def starts(self) -> np.ndarray:
        """The start table: the slots at which a segment begins, where the state is cleared."""
        starts: np.ndarray = np.cumsum(self.length) - self.length
        return starts

    @property
    def frames(self) -> int:
        """Frames in the block."""
        return int(self.length.sum())


def filler_block(t_max: int) -> Block:
    """Return an empty block, all padding, which is counted apart from the plan's own."""
    nothing = np.zeros(0, dtype=np.int64)
    return Block(-1, t_max, nothing, nothing, nothing)


@dataclass(frozen=True, eq=False)
class Plan:
    """All blocks of one epoch, in order.

    Args:
        t_max: slots in a block.
        sequence_lengths: frames of every sequence of the data set, ``(sequences,)``.
        sequence: number of every segment's sequence, ``(segments,)``, block after block.
        first: frame of the sequence at which each segment begins, ``(segments,)``.
        length: frames of each segment, ``(segments,)``.
        offsets: ``(blocks + 1,)``; block b holds the segments ``offsets[b]:offsets[b + 1]``.

    Raises:
        ValueError: a segment lies outside its sequence, a block overflows, or a frame appears
            twice. A packer that returns is therefore right about these.
    """

    t_max: int
    sequence_lengths: np.ndarray
    sequence: np.ndarray
    first: np.ndarray
    length: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        for name in ("sequence_lengths", "sequence", "first", "length", "offsets"):
            # a view, so that the caller's own array stays writable
            array = np.ascontiguousarray(getattr(self, name), dtype=np.int64).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check()

    def _check(self) -> None:
        segments = len(self.sequence)
        if not len(self.first) == len(self.length) == segments:
            raise ValueError(
                f"a plan needs as many firsts ({len(self.first)}) and lengths ({len(self.length)}) "
                f"as segments ({segments})"
            )
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != segments:
            raise ValueError(f"block offsets must run from 0 to the {segments} segments")
        if np.any(np.diff(self.offsets) < 0):
            raise ValueError("block offsets must not decrease")
        if segments == 0:
            return
        if self.sequence.min() < 0 or self.sequence.max() >= len(self.sequence_lengths):
            raise ValueError("a segment names a sequence that the data set does not have")
        end = self.first + self.length
        outside = (
            (self.length < 1) | (self.first < 0) | (end > self.sequence_lengths[self.sequence])
        )
        if outside.any():
            s = int(np.flatnonzero(outside)[0])
            raise ValueError(
                f"segment {s} takes frames {self.first[s]} to {end[s]} of sequence "
                f"{self.sequence[s]}, which has {self.sequence_lengths[self.sequence[s]]}"
            )
        if self.blocks and self.block_frames.max() > self.t_max:
            b = int(self.block_frames.argmax())
            raise ValueError(
                f"block {b} holds {self.block_frames[b]} frames; t_max is {self.t_max}"
            )
        order = np.lexsort((self.first, self.sequence))
        same = np.diff(self.sequence[order]) == 0
        if np.any(same & (self.first[order][1:] < end[order][:-1])):
            raise ValueError("a frame appears twice in the plan")

    @property
    def blocks(self) -> int:
        """Blocks of the epoch."""
        return len(self.offsets) - 1

    @property
    def segments(self) -> int:
        """Segments in all blocks."""
        return len(self.sequence)

    @property
    def sequences(self) -> int:
        """Sequences of the data set."""
        return len(self.sequence_lengths)

    @property
    def frames(self) -> int:
        """Frames of the data set."""
        return int(self.sequence_lengths.sum())

    @property
    def placed(self) -> int:
        """Frames that are in a block."""
        return int(self.length.sum())

    @property
    def deleted(self) -> int:
        """Frames of the data set that are in no block."""
        return self.frames - self.placed

    @property
    def processed(self) -> int:
        """Slots that the model processes: blocks x t_max."""
        return self.blocks * self.t_max

    @property
    def padding(self) -> int:
        """Slots that hold no frame."""
        return self.processed - self.placed

    @property
    def utilisation(self) -> float:
        """Share of the slots that hold a frame."""
        return self.placed / self.processed if self.blocks else 1.0

    @cached_property
    def block_frames(self) -> np.ndarray:
        """Frames in each block, ``(blocks,)``."""
        running: np.ndarray = np.concatenate([[0], np.cumsum(self.length)])
        frames: np.ndarray = running[self.offsets[1:]] - running[self.offsets[:-1]]
        return frames

    @cached_property
    def lower_bound(self) -> int:
        """Blocks that any packing of these segments needs at least (see `bload.bounds`).

        A plan with ``blocks == lower_bound`` is proved minimal; one above it may be minimal too.
        """
        return lower_bound(self.length, self.t_max)

    @property
    def lower_bound_padding(self) -> int:
        """Slots without a frame that `lower_bound` blocks would have."""
        return self.lower_bound * self.t_max - self.placed

    def block(self, index: int) -> Block:
        """Return block `index`; raise IndexError if the plan has none."""
        if not 0 <= index < self.blocks:
            raise IndexError(f"block {index} of a plan of {self.blocks} blocks")
        part = slice(self.offsets[index], self.offsets[index + 1])
        return Block(index, self.t_max, self.sequence[part], self.first[part], self.length[part])

    def block_of_segment(self) -> np.ndarray:
        """Return the block of each segment, ``(segments,)``."""
        return np.repeat(np.arange(self.blocks), np.diff(self.offsets))


def plan_from_blocks(
    blocks: list[list[int]],
    pieces: tuple[np.ndarray, np.ndarray, np.ndarray],
    sequence_lengths: np.ndarray,
    t_max: int,
) -> Plan:
    """Make a plan from lists of piece numbers, one list per block.

    Args:
        pieces: sequence, first frame and length of every piece (see `bload.pieces`).
        sequence_lengths: frames of every sequence, ``(sequences,)``.
    """
    sizes = np.fromiter((len(block) for block in blocks), dtype=np.int64, count=len(blocks))
    flat = [piece for block in blocks for piece in block]
    order = np.array(flat, dtype=np.int64)
    sequence, first, length = (array[order] for array in pieces)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Plan(t_max, sequence_lengths, sequence, first, length, offsets)


def check_lengths(lengths: ArrayLike, names: Sequence[str] | None = None) -> np.ndarray:
    """Return the lengths as int64 ``(sequences,)``; raise InputError about the first bad one."""
    try:
        array = np.asarray(lengths)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"the lengths are no list of numbers ({error})") from error
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"the lengths have shape {array.shape}; give a list with at least one sequence"
        )
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise InputError("the lengths contain something that is not a number; give whole numbers")
    with np.errstate(invalid="ignore"):  # beyond int64: found unequal below
        whole = array.astype(np.int64)
    bad = np.flatnonzero((whole < 1) | (whole != array))
    if len(bad):
        s = int(bad[0])
        name = names[s] if names else str(s)
        raise InputError(
            f"sequence {name} has length {array[s]}; lengths are whole numbers from 1 on: "
            "fix it or leave the sequence out"
        )
    if array.sum(dtype=float) > MOST_FRAMES:
        raise InputError(
            f"the lengths add up to {array.sum(dtype=float):,.0f} frames; give at most "
            f"{MOST_FRAMES:,}"
        )
    return whole
