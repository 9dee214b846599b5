"""Less memory for more time: recompute the per-frame part in the backward pass, or offload it.

I pictures.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

CHUNK = 16
"""Pictures recomputed at a time: the activations of this many live at once, not of all."""


def recomputed(
    function: Callable[..., Tensor], share: float, pictures_I: Tensor, *others_I: Tensor | None
) -> Tensor:
    """``function(pictures_I, *others_I)``, which keeps less for the backward pass.

    Of a share of the pictures, rounded to whole ones, only inputs and outputs are kept; chunk by
    chunk, the backward pass runs the function once more on them with the same random numbers, so
    the gradients are the same. The others belong to the pictures one by one, or are None. Right
    for functions in which no picture sees another. Works under DDP.

    The pictures recomputed are the first ones. The backward pass comes to them last, when what was
    kept of the rest is gone, so that a chunk takes no memory beyond the peak.
    """
    again = round(share * len(pictures_I))
    if not again:
        return function(pictures_I, *others_I)
    sizes = [min(CHUNK, again - first) for first in range(0, again, CHUNK)]
    runs: list[Callable[..., Tensor]] = [partial(checkpoint, function, use_reentrant=False)]
    runs *= len(sizes)
    if rest := len(pictures_I) - again:
        sizes.append(rest)
        runs.append(function)
    parts = (
        [None] * len(sizes) if values_I is None else values_I.split(sizes)
        for values_I in (pictures_I, *others_I)
    )
    return torch.cat([run(*part) for run, *part in zip(runs, *parts, strict=True)])


def offloaded(
    function: Callable[..., Tensor], pictures_I: Tensor, *others_I: Tensor | None
) -> Tensor:
    """``function(pictures_I, *others_I)``, with activations in host memory until they are needed.

    After ByteScale (arXiv 2502.21231), though all of them, and not on a stream of their own. What
    two operations keep is copied twice, and so are the weights. On the CPU it has no effect.
    """
    with save_on_cpu(pin_memory=pictures_I.is_cuda):
        return function(pictures_I, *others_I)
