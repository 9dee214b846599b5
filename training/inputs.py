"""From a batch to what the network takes.

B blocks, T slots.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bload import Batch
from datasets.letterbox import Letterbox
from models.frames import Frames
from models.temporal.layers import walk_orders


@dataclass(frozen=True)
class Inputs:
    """Moves batches to a device, resized there; with an augmentation for training."""

    letterbox: Letterbox
    device: torch.device
    gaps: Callable[[Batch], Tensor] | None = None
    """Returns the gaps before the frames, ``(B, T)``, for a network that reads them."""
    bptt: int | None = None
    """Slots of back-propagation through time; None: the whole block."""

    def __call__(self, batch: Batch, epoch: int = 0) -> tuple[Frames, Batch]:
        """Return the frames of a batch, and the batch on the device, with targets that fit them."""
        device_batch, extent_BT2 = self.letterbox(batch, self.device, epoch)
        frames = Frames(
            device_batch.inputs_BT,
            batch.start_BT,
            batch.valid_BT,
            extent_BT2,
            self.gaps(batch) if self.gaps else None,
            walk_orders(batch.start_BT, self.bptt),
        )
        return frames, device_batch
