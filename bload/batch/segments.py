"""Table of the segments of a batch, which its masks mark slot by slot.

    |a a a b b .|   start_BT   1 0 0 1 0 0     valid_BT   1 1 1 1 1 0
    |c c d d d d|              1 0 1 0 0 0                1 1 1 1 1 1

    segments (block 0, slot 0, length 3), (0, 3, 2), (1, 0, 2), (1, 2, 4)

B blocks, T slots, S segments (block after block).
"""

from dataclasses import dataclass, field

from torch import Tensor

from bload.batch.trees import CompactPickle


@dataclass(slots=True, eq=False)
class Segments(CompactPickle):
    """All segments of a batch, block after block, in slot order; int64 ``(S,)`` each."""

    block_S: Tensor
    """Row of the batch that holds the segment."""
    slot_S: Tensor
    """Slot of its first frame."""
    length_S: Tensor
    """Number of its frames."""
    sequence_S: Tensor
    """Number of its sequence in the data set."""
    first_S: Tensor
    """Frame of the sequence at which it begins."""
    longest: int = field(kw_only=True)
    """Largest length, stored so that reading it does not synchronise with the device."""

    def __len__(self) -> int:
        return len(self.slot_S)
