"""Exchange of pictures between ranks, so that their numbers differ by at most one.

I pictures of this rank, J pictures that it computes, C H W image, L layers.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.spread import spread_rows


def share_pictures(
    pixels_ICHW: Tensor, extent_I2: Tensor | None
) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Tensor]]:
    """Agree with all ranks who computes which pictures; they differ by at most one in number.

    It is after the remapping of Zeppelin (arXiv 2509.21841), for ranks with unequal numbers of
    frames: if padding is skipped, or if there are fewer blocks than ranks. Backbone, encoder and
    spatial decoders compute away from home, the temporal part and the heads at home.

    Returns:
        pixels and extents of the pictures that this rank computes, and a function that brings
        values ``(L, J, ...)`` of these home, as ``(L, I, ...)``. All ranks must call it equally
        often.
    """
    spread = spread_rows(len(pixels_ICHW))
    have_extents = torch.tensor(float(extent_I2 is not None))
    dist.all_reduce(have_extents)
    if extent_I2 is None and have_extents:
        extent_I2 = torch.ones(len(pixels_ICHW), 2, device=pixels_ICHW.device)
    extent_J2 = None if extent_I2 is None else spread.away(extent_I2)
    return spread.away(pixels_ICHW), extent_J2, partial(spread.home, dim=1)
