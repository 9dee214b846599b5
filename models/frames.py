"""A batch as the network takes it.

B blocks, T slots, C H W image.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from bload.batch.trees import to_device
from bload.batch.walk_order import WalkOrder
from models.slots import ComputedSlots
from models.temporal.layers import walk_orders


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of a batch, and what the network has to know of each.

    Keep all but the pixels on the host: then the network waits for no GPU, except ``attention`` on
    blocks of more than 128 slots or with a state.
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
    conditioning_BT: Tensor | None = None
    """A number per frame, for a network that has an embedding of it."""
    orders: Sequence[WalkOrder] | None = None
    """`walk_orders` of the starts; None: gradients reach back to the video's start."""

    def slots(self, skip_padding: bool) -> ComputedSlots:
        """Return the slots to compute: all, or those that hold a frame."""
        if skip_padding and self.valid_BT is not None:
            return ComputedSlots.from_valid(self.valid_BT.cpu())
        return ComputedSlots((self.start_BT.shape[0], self.start_BT.shape[1]))

    def blank_padding(self) -> "Frames":
        """Move everything to the device of the pixels, with nothing left in padding."""
        device = self.pixels_BTCHW.device
        orders = walk_orders(self.start_BT, None) if self.orders is None else self.orders
        pixels_BTCHW, extent_BT2 = self.pixels_BTCHW, self.extent_BT2
        conditioning_BT = self.conditioning_BT
        if extent_BT2 is not None:
            extent_BT2 = to_device(extent_BT2, device)
        if conditioning_BT is not None:
            conditioning_BT = to_device(conditioning_BT, device)
        if self.valid_BT is not None:
            padding_BT = ~to_device(self.valid_BT, device)
            pixels_BTCHW = pixels_BTCHW.masked_fill(padding_BT[..., None, None, None], 0)
            if extent_BT2 is not None:
                extent_BT2 = extent_BT2.masked_fill(padding_BT[..., None], 1)
            if conditioning_BT is not None:
                conditioning_BT = conditioning_BT.masked_fill(padding_BT, 0)
        return replace(
            self,
            pixels_BTCHW=pixels_BTCHW,
            start_BT=to_device(self.start_BT, device),
            extent_BT2=extent_BT2,
            conditioning_BT=conditioning_BT,
            orders=[order.to(device) for order in orders],
        )
