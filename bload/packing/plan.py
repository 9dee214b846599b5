"""Plan of an epoch: the place of every frame, known before any file is read.

    block 0   |a a a a|b b b|c|. .|      a, b, c segments; . padding; `|` before a letter: a start
    block 1   |d d d d d d d d|e e|

A segment is a run of frames of one sequence; a block has ``t_max`` slots. A plan consists of flat
arrays, so ten million sequences fit, and it checks itself.
"""

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bload.packing.bounds import lower_bound
from bload.packing.pieces import Pieces


def round_up(lengths: np.ndarray, multiple: int) -> np.ndarray:
    """Return the slots that segments take, a multiple each."""
    return np.asarray(-(-lengths // multiple) * multiple)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block of `t_max` slots: its segments in slot order. A filler has none.

    All arrays are int64, ``(segments,)``.
    """

    index: int
    """Position in the plan; -1 for a filler."""
    t_max: int
    """Slots of the block."""
    sequence: np.ndarray
    """Sequence of each segment, as its number in the data set."""
    first: np.ndarray
    """Frame of the sequence at which each segment begins."""
    length: np.ndarray
    """Frames of each segment."""
    continues: bool = False
    """True if the first segment continues the block of the same row in the previous step."""
    multiple_of: int = 1
    """Every segment takes a multiple of so many slots; padding follows its frames."""

    @property
    def starts(self) -> np.ndarray:
        """First slot of each segment; the state is cleared there unless the segment continues."""
        slots = round_up(self.length, self.multiple_of)
        return np.asarray(np.cumsum(slots) - slots)

    @property
    def frames(self) -> int:
        """Frames in the block."""
        return int(self.length.sum())


def filler_block(t_max: int) -> Block:
    """Return an empty block; its padding is counted apart from the plan's."""
    nothing = np.zeros(0, dtype=np.int64)
    return Block(-1, t_max, nothing, nothing, nothing)


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """All blocks of one epoch, in order.

    Args:
        t_max: slots in the largest block.
        sequence_lengths: frames of every sequence of the data set, ``(sequences,)``.
        sequence: number of every segment's sequence, ``(segments,)``, block after block.
        first: frame of the sequence at which each segment begins, ``(segments,)``.
        length: frames of each segment, ``(segments,)``.
        offsets: ``(blocks + 1,)``; block b holds the segments ``offsets[b]:offsets[b + 1]``.
        slots: slots of every block, ``(blocks,)``; by default `t_max` each.
        batches: ``(batches + 1,)``, if the packer makes the batches: batch i has the blocks
            ``batches[i]:batches[i + 1]``. By default, a batch is filled with blocks of one size.
        carries: True if later pieces of a sequence go on with its state, see `bload.packing.carry`.
        multiple_of: every segment takes a multiple of so many slots, the rest of them padding.

    Raises:
        ValueError: a segment lies outside its sequence, a block overflows, or a frame is repeated.
    """

    t_max: int
    sequence_lengths: np.ndarray
    sequence: np.ndarray
    first: np.ndarray
    length: np.ndarray
    offsets: np.ndarray
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0))
    batches: np.ndarray = field(default_factory=lambda: np.zeros(0))
    carries: bool = False
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if len(self.slots) == 0:
            object.__setattr__(self, "slots", np.full(max(len(self.offsets) - 1, 0), self.t_max))
        names = ("sequence_lengths", "sequence", "first", "length", "offsets", "slots", "batches")
        for name in names:
            # a view, so that the caller's own array stays writable
            array = np.ascontiguousarray(getattr(self, name), dtype=np.int64).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check()

    def __repr__(self) -> str:
        return (
            f"Plan({self.num_blocks:,} blocks of up to {self.t_max:,} slots, "
            f"{self.num_segments:,} segments of {len(self.sequence_lengths):,} sequences)"
        )

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
        self._check_inside()
        if len(self.slots) != self.num_blocks or self.slots.max(initial=0) > self.t_max:
            raise ValueError(f"a plan needs slots for each of its blocks, at most {self.t_max}")
        used = self._by_block(round_up(self.length, self.multiple_of))
        if np.any(used > self.slots):
            b = int((used - self.slots).argmax())
            raise ValueError(f"block {b} takes {used[b]} slots and has {self.slots[b]}")
        if len(self.batches):
            starts, ends = self.batches[:-1], self.batches[1:]
            if starts[0] != 0 or ends[-1] != self.num_blocks or np.any(ends <= starts):
                raise ValueError(f"batches must run from 0 to the {self.num_blocks} blocks")
            batch = np.repeat(np.arange(len(starts)), ends - starts)
            if np.any(np.diff(self.slots) * (np.diff(batch) == 0)):
                raise ValueError("blocks of one batch must have equally many slots")
        self._check_frames_once()
        if self.carries:
            _ = self.continued

    def _check_inside(self) -> None:
        total = self.sequence_lengths[self.sequence]
        outside = self.first > total - self.length
        if outside.any() or self.length.min() < 1 or self.first.min() < 0:
            s = int((outside | (self.length < 1) | (self.first < 0)).argmax())
            raise ValueError(
                f"segment {s} takes frames {self.first[s]} to {self.first[s] + self.length[s]} of "
                f"sequence {self.sequence[s]}, which has {total[s]}"
            )

    def _check_frames_once(self) -> None:
        is_cut = np.bincount(self.sequence) > 1
        pieces = np.flatnonzero(is_cut[self.sequence]) if is_cut.any() else np.zeros(0, np.int64)
        pieces = pieces[np.lexsort((self.first[pieces], self.sequence[pieces]))]
        sequence, first = self.sequence[pieces], self.first[pieces]
        end = first + self.length[pieces]
        if np.any((sequence[1:] == sequence[:-1]) & (first[1:] < end[:-1])):
            raise ValueError("a frame appears twice in the plan")

    @property
    def num_blocks(self) -> int:
        """Blocks of the epoch."""
        return len(self.offsets) - 1

    @property
    def num_segments(self) -> int:
        """Segments in all blocks."""
        return len(self.sequence)

    @property
    def frames(self) -> int:
        """Frames of the data set."""
        return int(self.sequence_lengths.sum())

    @property
    def placed(self) -> int:
        """Frames of the data set that are in blocks."""
        return int(self.length.sum())

    @property
    def deleted(self) -> int:
        """Frames of the data set that are in no block."""
        return self.frames - self.placed

    @property
    def processed(self) -> int:
        """Slots that the model processes."""
        return int(self.slots.sum())

    @property
    def padding(self) -> int:
        """Slots that hold no frame."""
        return self.processed - self.placed

    @property
    def utilisation(self) -> float:
        """Share of slots that hold a frame."""
        return self.placed / self.processed if self.num_blocks else 1.0

    @cached_property
    def has_one_size(self) -> bool:
        """True if all blocks have `t_max` slots and the packer makes no batches."""
        return len(self.batches) == 0 and bool(np.all(self.slots == self.t_max))

    @cached_property
    def block_frames(self) -> np.ndarray:
        """Frames in each block, ``(blocks,)``."""
        return self._by_block(self.length)

    def _by_block(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the values of each block's segments."""
        running = np.zeros(self.num_segments + 1, dtype=np.int64)
        np.cumsum(values, out=running[1:])
        return np.diff(running[self.offsets])

    @cached_property
    def continued(self) -> np.ndarray:
        """Block that each block's first segment continues, ``(blocks,)``; -1 for none.

        Raises:
            ValueError: a segment continues inside a block, or after a block that is not full.
        """
        continued = np.full(self.num_blocks, -1)
        later = np.flatnonzero(self.first > 0) if self.carries else np.zeros(0, np.int64)
        if len(later) == 0:
            return continued
        block = self.block_of_segment()
        last = self.offsets[1:] - 1
        ends = {
            (int(self.sequence[s]), int(self.first[s] + self.length[s])): b
            for b, s in enumerate(last)
            if self.block_frames[b] == self.slots[b]
        }
        for s in later:
            before = ends.get((int(self.sequence[s]), int(self.first[s])), -1)
            if s != self.offsets[block[s]] or before < 0:
                raise ValueError(
                    f"segment {s} cannot go on with a state: it is not the first of its block, or "
                    "no full block ends with the frame before"
                )
            continued[block[s]] = before
        return continued

    @cached_property
    def lower_bound(self) -> int:
        """Lower bound on the blocks of any packing of these segments (see `bload.packing.bounds`).

        A plan with ``num_blocks == lower_bound`` is proved minimal; others may be minimal too.
        """
        units = round_up(self.length, self.multiple_of) // self.multiple_of
        return lower_bound(units, self.t_max // self.multiple_of)

    @property
    def lower_bound_padding(self) -> int:
        """Padding that `lower_bound` blocks would have."""
        return self.lower_bound * self.t_max - self.placed

    def block(self, index: int) -> Block:
        """Return block `index`; raise IndexError if the plan has none."""
        if not 0 <= index < self.num_blocks:
            raise IndexError(f"block {index} of a plan of {self.num_blocks} blocks")
        part = slice(self.offsets[index], self.offsets[index + 1])
        slots = int(self.slots[index])
        continues = bool(self.carries and self.continued[index] >= 0)
        columns = self.sequence[part], self.first[part], self.length[part]
        return Block(index, slots, *columns, continues, self.multiple_of)

    def block_of_segment(self) -> np.ndarray:
        """Return the block of each segment, ``(segments,)``."""
        return np.repeat(np.arange(self.num_blocks), np.diff(self.offsets))


def plan_from_blocks(
    blocks: list[list[int]], pieces: Pieces, sequence_lengths: np.ndarray, t_max: int
) -> Plan:
    """Make a plan from lists of piece numbers, one per block; see `plan_from_arrays`."""
    counts = np.fromiter((len(block) for block in blocks), dtype=np.int64, count=len(blocks))
    order = np.fromiter(itertools.chain.from_iterable(blocks), np.int64, count=int(counts.sum()))
    return plan_from_arrays(order, counts, pieces, sequence_lengths, t_max)


def plan_from_arrays(
    order: np.ndarray, counts: np.ndarray, pieces: Pieces, sequence_lengths: np.ndarray, t_max: int
) -> Plan:
    """Make a plan from piece numbers, block after block.

    Args:
        order: piece numbers, ``(pieces,)``.
        counts: number of pieces in every block, ``(blocks,)``.
        pieces: sequence, first frame and length of every piece (see `bload.packing.pieces`).
    """
    sequence, first, length = (array[order] for array in pieces)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Plan(t_max, sequence_lengths, sequence, first, length, offsets)
