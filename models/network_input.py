"""A batch as the network takes it.

B blocks, T slots, I of these with a frame, C H W image.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from bload.batch.batch import Batch
from bload.batch.trees import to_device
from bload.batch.walk_order import WalkOrder


def frame_gaps(batch: Batch) -> Tensor:
    """Return the video frames since the previous annotated one, ``(B, T)`` float.

    The gap is 0 where states are cleared and on padding. Action Genome annotates frames at
    irregular distances.
    """
    gap_BT = torch.zeros(batch.valid_BT.shape)
    gap_BT[batch.valid_BT] = torch.tensor([target.gap for target in batch.targets])
    return gap_BT.masked_fill(batch.start_BT, 0)


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """What the network takes: frames of a batch, and what it has to know of each.

    The network reads starts and valid slots on the host. If they are on a GPU, that synchronises
    with it, so keep all but the pixels on the host.
    """

    pixels_BTCHW: Tensor
    """RGB, uint8 or float in 0..255, one size for all."""
    start_BT: Tensor
    """Bool, True on the first frame of each video."""
    valid_BT: Tensor | None = None
    """Bool, False on padding. Padded pixels are blanked, so that not even a NaN among them matters.
    None: there is no padding."""
    extent_BT2: Tensor | None = None
    """Shares (x, y) in 0..1 of the canvas's width and height that each picture fills, from its
    upper left corner. The rest of the canvas does not matter, and boxes are shares of the picture.
    None: all fill the canvas."""
    gap_BT: Tensor | None = None
    """`frame_gaps`, which only a network with ``time=gap`` reads."""
    order: WalkOrder | Literal["segments", "slots"] = "segments"
    """As in `bload.walk`."""

    def valid_slots(self) -> Tensor | None:
        """Return the index ``(I,)`` of the slots that hold a frame, on the device; None: all do.

        It is made on the host, and so without synchronising if `valid_BT` is there.
        """
        if self.valid_BT is None:
            return None
        valid_BT = self.valid_BT.cpu().clone()
        valid_BT[0, 0] |= ~valid_BT.any()  # so every parameter has a gradient on every rank
        return to_device(valid_BT.flatten().nonzero().squeeze(1), self.pixels_BTCHW.device)

    def prepare(self) -> "NetworkInput":
        """Return the input as layers take it: on the pixels' device, with nothing in padding.

        Walks by segments get their order, the same for all walks.
        """
        device = self.pixels_BTCHW.device
        order = WalkOrder.of(self.start_BT) if self.order == "segments" else self.order
        padding_BT = None if self.valid_BT is None else ~to_device(self.valid_BT, device)

        def blank(values: Tensor, value: float) -> Tensor:
            values = to_device(values, device)
            if padding_BT is None:
                return values
            return values.masked_fill(padding_BT[(..., *[None] * (values.dim() - 2))], value)

        return replace(
            self,
            pixels_BTCHW=blank(self.pixels_BTCHW, 0),
            start_BT=to_device(self.start_BT, device),
            extent_BT2=None if self.extent_BT2 is None else blank(self.extent_BT2, 1),
            gap_BT=None if self.gap_BT is None else blank(self.gap_BT, 0),
            order=order.to(device) if isinstance(order, WalkOrder) else order,
        )
