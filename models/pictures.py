"""Which pictures a rank computes, and how values of them come back to the slots of its blocks.

B blocks, T slots, I of these to compute, J pictures that this rank computes, L layers.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.spread import spread_rows
from models.network_input import NetworkInput


def choose_pictures(
    inputs: NetworkInput, skip_padding: bool, exchange: bool
) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Tensor]]:
    """Choose the pictures that this rank computes, of a batch that `NetworkInput.prepare` returned.

    With `exchange` all ranks agree who computes which, so that their numbers differ by at most one.
    It is after the remapping of Zeppelin (arXiv 2509.21841), for ranks with unequal numbers of
    frames: if padding is skipped, or if there are fewer blocks than ranks. Backbone, encoder and
    spatial decoders compute away from home, the temporal part and the heads at home.

    Returns:
        pixels ``(J, C, H, W)`` and extents ``(J, 2)`` of these pictures, and a function that brings
        values ``(L, J, ...)`` into slots, ``(L, B, T, ...)``, with 0 in the others. Under
        `exchange`, all ranks must call it equally often.
    """
    pixels_ICHW, shape_BT = inputs.pixels_BTCHW.flatten(0, 1), inputs.start_BT.shape
    extent_I2 = None if inputs.extent_BT2 is None else inputs.extent_BT2.flatten(0, 1)
    index_I = inputs.valid_slots() if skip_padding else None
    if index_I is not None:
        pixels_ICHW = pixels_ICHW[index_I]
        extent_I2 = None if extent_I2 is None else extent_I2[index_I]
    spread = spread_rows(len(pixels_ICHW)) if exchange else None

    def to_slots(values_LJ: Tensor) -> Tensor:
        values_LI = spread.home(values_LJ, dim=1) if spread else values_LJ
        if index_I is not None:
            zeros = values_LI.new_zeros(len(values_LI), shape_BT.numel(), *values_LI.shape[2:])
            values_LI = zeros.index_copy(1, index_I, values_LI)
        return values_LI.unflatten(1, shape_BT)

    if spread is None:
        return pixels_ICHW, extent_I2, to_slots
    have_extents = torch.tensor(float(extent_I2 is not None))
    dist.all_reduce(have_extents)
    if extent_I2 is None and have_extents:
        extent_I2 = torch.ones(len(pixels_ICHW), 2, device=pixels_ICHW.device)
    extent_J2 = None if extent_I2 is None else spread.away(extent_I2)
    return spread.away(pixels_ICHW), extent_J2, to_slots
