"""Segments of a batch as a table and as masks, and the conversions between them.

    |a a a b b .|   start_BT    1 0 0 1 0 0     valid_BT  1 1 1 1 1 0
    |c c d d d d|               1 0 1 0 0 0               1 1 1 1 1 1

    segment_BT  0 0 0 1 1 -1    segments     (block 0, slot 0, length 3), (0, 3, 2), (1, 0, 2), ...
                0 0 1 1 1  1
B blocks, T slots, S segments (block after block).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bload.batch.trees import get_state, set_state


@dataclass(frozen=True, slots=True)
class Segments:
    """Block, first slot and length of each segment of a batch: int64 ``(S,)``, block by block."""

    block_S: Tensor
    """Row of the batch that holds the segment."""
    slot_S: Tensor
    """Slot of its first frame."""
    length_S: Tensor
    """Its frames."""
    longest: int = 0
    """The largest length, here so that asking for it does not wait for the device."""

    def __len__(self) -> int:
        return len(self.slot_S)

    def __getstate__(self) -> list[Any]:
        return get_state(self)

    def __setstate__(self, state: list[Any]) -> None:
        set_state(self, state)


def masks_from_segments(
    segments: Segments, blocks: int, t_max: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``valid_BT``, ``start_BT`` (bool) and ``segment_BT`` (int64, -1 on padding)."""
    start_BT = torch.zeros(blocks, t_max, dtype=torch.bool, device=segments.slot_S.device)
    start_BT[segments.block_S, segments.slot_S] = True
    frames_B = torch.zeros(blocks, dtype=torch.int64, device=start_BT.device)
    frames_B.index_add_(0, segments.block_S, segments.length_S)
    slots_T = torch.arange(t_max, device=start_BT.device)
    valid_BT = slots_T < frames_B[:, None]
    return valid_BT, start_BT, torch.where(valid_BT, start_BT.cumsum(1) - 1, -1)


def segments_from_masks(valid_BT: Tensor, start_BT: Tensor) -> Segments:
    """Return the segments that the masks describe."""
    block_S, slot_S = start_BT.nonzero(as_tuple=True)
    segment_V = start_BT[valid_BT].cumsum(0) - 1
    length_S = torch.bincount(segment_V, minlength=len(slot_S))
    return Segments(block_S, slot_S, length_S, int(length_S.max()) if len(length_S) else 0)
