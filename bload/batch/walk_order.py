"""Segments of a batch side by side: a walk takes as many steps as the longest has slots.

    |a a a b b .|    step   0 1 2 3 4      rows of a step   4 3 3 1 1
    |c d d d d d|           d d d d d      the longest segment first;
                            a a a          padding continues the segment before it
                            b b .
                            c

B blocks, T slots, S segments in the order of their rows, V = B * T slots step by step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bload.batch.trees import to_device


def side_by_side(slot_S: Tensor, length_S: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the slots of segments step by step, the segments of each step, and their order.

    Args:
        slot_S: int64, index ``b * T + t`` of the first slot of each segment.
        length_S: int64, its slots.

    Returns:
        index of every slot; number of segments with a slot at each step, ``(longest,)``; the
        segments from the longest to the shortest, ``(S,)``.
    """
    order_S = length_S.argsort(descending=True, stable=True)
    rows_T = torch.bincount(length_S, minlength=longest + 1).flip(0).cumsum(0).flip(0)[1:]
    step_V = torch.arange(longest, device=rows_T.device).repeat_interleave(rows_T)
    row_V = torch.arange(len(step_V), device=rows_T.device) - (rows_T.cumsum(0) - rows_T)[step_V]
    return slot_S[order_S][row_V] + step_V, rows_T, order_S


@dataclass(frozen=True, slots=True, eq=False)
class WalkOrder:
    """Order in which `walk` takes the slots of a batch, the same for all walks over its starts."""

    rows_T: tuple[int, ...]
    """Number of segments with a slot at each step; it never increases."""
    slot_V: Tensor
    """int64, index ``b * T + t`` of every slot, step by step."""
    block_S: Tensor
    """int64, block of each segment."""
    starts_S: Tensor
    """bool, False for a segment that continues one of an earlier batch."""
    last_B: Tensor
    """int64, row of each block's last segment."""

    @classmethod
    def of(cls, start_BT: Tensor) -> "WalkOrder":
        """Return the order for the starts of a batch, bool ``(B, T)``.

        It is computed on the host, so it synchronises once with the device of the starts.
        """
        blocks, slots = start_BT.shape
        begins_BT = start_BT.cpu().clone()
        starts_B = begins_BT[:, 0].clone()
        begins_BT[:, 0] = True
        slot_S = begins_BT.flatten().nonzero()[:, 0]
        length_S = slot_S.diff(append=torch.tensor([blocks * slots], device="cpu"))
        slot_V, rows_T, order_S = side_by_side(slot_S, length_S, int(length_S.max()))
        block_S = slot_S // slots
        starts_S = (slot_S % slots != 0) | starts_B[block_S]
        last_S = block_S.diff(append=torch.tensor([blocks], device="cpu"))
        last_B = order_S.argsort()[last_S.nonzero()[:, 0]]
        columns = slot_V, block_S[order_S], starts_S[order_S], last_B
        return cls(tuple(rows_T.tolist()), *columns).to(start_BT.device)

    def to(self, device: torch.device | str) -> "WalkOrder":
        """Return the order with its tensors on `device`."""
        tensors = self.slot_V, self.block_S, self.starts_S, self.last_B
        return WalkOrder(self.rows_T, *(to_device(tensor, device) for tensor in tensors))

    @property
    def slots(self) -> int:
        """T, slots of a block."""
        return len(self.slot_V) // len(self.last_B)

    def packed(self, values_BT: Tensor) -> Tensor:
        """Rearrange ``(B, T, ...)`` into ``(V, ...)``, step by step."""
        return values_BT.flatten(0, 1).index_select(0, self.slot_V)

    def unpacked(self, values_V: Tensor) -> Tensor:
        """Rearrange ``(V, ...)`` into ``(B, T, ...)``."""
        moved_V = torch.empty_like(values_V).index_copy(0, self.slot_V, values_V)
        return moved_V.view(len(self.last_B), -1, *moved_V.shape[1:])
