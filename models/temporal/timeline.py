"""The segments of a batch, for several parts that walk them together.

B blocks, T slots, V = B * T slots in the order of a `bload.WalkOrder`, G parts of equal sizes with
weights of their own, W = G * V rows: step by step, of every step part by part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bload.walk_order import WalkOrder, rearranged


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """How the slots of G parts are taken."""

    order: WalkOrder
    """Of each part."""
    slot_W: Tensor
    """int64, ``(g * B + b) * T + t`` of every row."""
    place_W: Tensor
    """int64, the inverse."""

    @classmethod
    def of(cls, start_BT: Tensor, parts: int = 1) -> "Timeline":
        """Return that of a batch with these starts."""
        order = WalkOrder.of(start_BT)
        slots = order.slot_V.numpy()
        rows_T = np.array(order.rows_T)
        before_V = np.repeat(np.cumsum(rows_T) - rows_T, rows_T)
        rows_V = np.repeat(rows_T, rows_T)
        place_GV = (
            np.arange(parts)[:, None] * rows_V + (parts - 1) * before_V + np.arange(len(slots))
        )
        slot_W = np.empty(parts * len(slots), np.int64)
        slot_W[place_GV] = np.arange(parts)[:, None] * len(slots) + slots
        return cls(order, torch.from_numpy(slot_W), torch.from_numpy(np.argsort(slot_W)))

    def to(self, device: torch.device) -> "Timeline":
        """Return the timeline with its tensors on `device`."""
        return Timeline(self.order.to(device), self.slot_W.to(device), self.place_W.to(device))

    @property
    def slots(self) -> int:
        """T."""
        return len(self.order.slot_V) // len(self.order.last_B)

    def packed(self, values_G: Sequence[Tensor]) -> Tensor:
        """``(B, T, ...)`` of every part -> ``(W, ...)``."""
        values = torch.cat([values_BT.flatten(0, 1) for values_BT in values_G])
        return rearranged(values, self.slot_W, self.place_W)

    def unpacked(self, values_W: Tensor) -> Tensor:
        """``(W, ...)`` -> ``(G, B, T, ...)``."""
        blocks = len(self.order.last_B)
        moved = rearranged(values_W, self.place_W, self.slot_W)
        return moved.view(-1, blocks, self.slots, *moved.shape[1:])
