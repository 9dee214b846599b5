"""Less memory for more time: the per-frame part is computed again in the backward pass.

I pictures, C H W image.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 16
"""Pictures that are recomputed at a time, and so have their activations in memory at once."""


def recompute(
    encode: Callable[[Tensor, Tensor | None], Tensor],
    share: float,
    pixels_ICHW: Tensor,
    extent_I2: Tensor | None,
) -> Tensor:
    """Return ``encode(pixels_ICHW, extent_I2)``, recomputed for the first pictures, a share of all.

    Of these only inputs and outputs are saved. The backward pass computes them again, chunk by
    chunk and with the same random numbers, so gradients are the same. It reaches them last, when
    what was saved for the rest is gone, so that a chunk does not raise the peak. Works under DDP.
    """
    count = round(share * len(pixels_ICHW))
    if not count or not torch.is_grad_enabled():
        return encode(pixels_ICHW, extent_I2)
    tokens = []
    for first in range(0, count, CHUNK):
        chunk = slice(first, min(first + CHUNK, count))
        extent = None if extent_I2 is None else extent_I2[chunk]
        tokens.append(checkpoint(encode, pixels_ICHW[chunk], extent, use_reentrant=False))
    if count < len(pixels_ICHW):
        extent = None if extent_I2 is None else extent_I2[count:]
        tokens.append(encode(pixels_ICHW[count:], extent))
    return torch.cat(tokens)
