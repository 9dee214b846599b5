"""Less memory for more time: run the per-frame part again in the backward pass.

I pictures.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 16
"""Pictures recomputed at a time: the activations of this many live at once, not of all."""


def recomputed(
    function: Callable[..., Tensor], pictures_I: Tensor, *others_I: Tensor | None
) -> Tensor:
    """``function(pictures_I, *others_I)``, of which only inputs and outputs are kept for backward.

    The others belong to the pictures one by one, or are None. Right for functions in which no
    picture sees another. Chunk by chunk, the backward pass runs it once more with the same random
    numbers, so the gradients are the same. Works under DDP.
    """
    chunks = pictures_I.split(CHUNK)
    others = [[None] * len(chunks) if other is None else other.split(CHUNK) for other in others_I]
    return torch.cat(
        [
            checkpoint(function, *chunk, use_reentrant=False)
            for chunk in zip(chunks, *others, strict=True)
        ]
    )
