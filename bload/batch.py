"""A batch: blocks of frames, with masks for the slots that hold a frame and those that start one.

B blocks, T slots, S segments, V valid frames.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bload.plan import Block
from bload.views import StartTable, masks_from_table


@dataclass(frozen=True, slots=True)
class BlockSample:
    """One block as read, without padding: the frames of its segments in slot order."""

    block: Block
    frames_V: Tensor
    """``(V, ...)``"""
    targets: Sequence[Any]
    """One entry per frame."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Input of a training step.

    Padding is zeros with ``valid_BT`` False; losses, matching, batch statistics and metrics have to
    leave it out.
    """

    frames_BT: Tensor
    """``(B, T, ...)`` in the source's dtype (images stay uint8 until the device), 0 on padding."""
    targets: tuple[Any, ...]
    """One entry per valid frame, row-major: the i-th belongs to the i-th True of ``valid_BT``."""
    valid_BT: Tensor
    """bool, True on a frame, False on padding."""
    start_BT: Tensor
    """bool, True on the first frame of each segment: state is cleared before it."""
    segment_BT: Tensor
    """int64, number of the segment within its block, -1 on padding."""
    sequence_BT: Tensor
    """int64, number of the sequence in the data set, -1 on padding."""
    position_BT: Tensor
    """int64, number of the frame within its sequence, -1 on padding."""
    table: StartTable
    """Block, slot and length of every segment."""

    @property
    def cu_seqlens(self) -> Tensor:
        """Cumulative segment lengths ``(S + 1,)``, int32: the ragged view of ``frames[valid]``."""
        length_S = self.table.length_S
        return torch.cat([length_S.new_zeros(1), length_S.cumsum(0)]).to(torch.int32)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on `device`; targets stay as they are."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Return the batch in page-locked memory, as a DataLoader with ``pin_memory=True`` asks."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        table = StartTable(*(change(getattr(self.table, f.name)) for f in fields(StartTable)))
        names = [field.name for field in fields(self) if field.name.endswith("_BT")]
        tensors: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        return replace(self, table=table, **tensors)


def collate_blocks(samples: Sequence[BlockSample]) -> Batch:
    """Put blocks of equal ``t_max`` side by side into a `Batch`, in the order given.

    Raises:
        ValueError: frames of different shapes or dtypes.
    """
    blocks = [sample.block for sample in samples]
    t_max = blocks[0].t_max
    block_S, slot_S, length_S, sequence_S, first_S = (
        torch.as_tensor(np.concatenate(column))
        for column in (
            [np.full(len(block.length), b, np.int64) for b, block in enumerate(blocks)],
            [block.starts for block in blocks],
            [block.length for block in blocks],
            [block.sequence for block in blocks],
            [block.first for block in blocks],
        )
    )
    table = StartTable(block_S, slot_S, length_S)
    valid_BT, start_BT, segment_BT = masks_from_table(table, len(blocks), t_max)

    like_V = samples[0].frames_V
    frames_BT = like_V.new_zeros(len(blocks), t_max, *like_V.shape[1:])
    for b, sample in enumerate(samples):
        frame_V = sample.frames_V
        if frame_V.shape[1:] != like_V.shape[1:] or frame_V.dtype != like_V.dtype:
            raise ValueError(
                f"frames of one batch differ: {tuple(like_V.shape[1:])} {like_V.dtype} and "
                f"{tuple(frame_V.shape[1:])} {frame_V.dtype}; read must return all of one kind"
            )
        frames_BT[b, : len(frame_V)] = frame_V

    # Row-major order of valid frames is segment after segment, so ragged values unroll by repeat.
    sequence_BT = torch.full((len(blocks), t_max), -1)
    sequence_BT[valid_BT] = sequence_S.repeat_interleave(length_S)
    slots_BT = torch.arange(t_max).expand(len(blocks), t_max)
    position_BT = torch.full((len(blocks), t_max), -1)
    position_BT[valid_BT] = slots_BT[valid_BT] + (first_S - slot_S).repeat_interleave(length_S)

    targets = tuple(target for sample in samples for target in sample.targets)
    return Batch(
        frames_BT, targets, valid_BT, start_BT, segment_BT, sequence_BT, position_BT, table
    )
