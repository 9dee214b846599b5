"""Less memory for more time: recompute the per-frame part in the backward pass, or offload it.

I pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from models.execution import Execution

if TYPE_CHECKING:
    from models.dds import DDS

CHUNK = 16
"""Pictures that are recomputed at a time, and so have their activations in memory at once."""


@dataclass(frozen=True)
class Recompute(Execution):
    """Recompute the per-frame part of a share of the pictures in the backward pass."""

    share: float = 1.0

    def encode(self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        if not torch.is_grad_enabled():
            return network.encode(frames_ICHW, extent_I2)
        return recomputed(network.encode, self.share, frames_ICHW, extent_I2)


@dataclass(frozen=True)
class Offload(Execution):
    """Keep the activations of the per-frame part in host memory."""

    def encode(self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        return offloaded(network.encode, frames_ICHW, extent_I2)


def recomputed(
    function: Callable[..., Tensor], share: float, pictures_I: Tensor, *others_I: Tensor | None
) -> Tensor:
    """Return ``function(pictures_I, *others_I)``, which saves less for the backward pass.

    For the first pictures, a share of all rounded to whole ones, only inputs and outputs are saved.
    The backward pass runs the function on them again, chunk by chunk and with the same random
    numbers, so gradients are the same. It reaches them last, when what was saved for the rest is
    gone, so that a chunk does not raise the peak.

    No picture may see another in `function`. `others_I` have a row per picture, or are None. Works
    under DDP.
    """
    recomputed_count = round(share * len(pictures_I))
    if not recomputed_count:
        return function(pictures_I, *others_I)
    sizes = [min(CHUNK, recomputed_count - first) for first in range(0, recomputed_count, CHUNK)]
    runs: list[Callable[..., Tensor]] = [partial(checkpoint, function, use_reentrant=False)]
    runs *= len(sizes)
    if remaining_count := len(pictures_I) - recomputed_count:
        sizes.append(remaining_count)
        runs.append(function)
    parts = (
        [None] * len(sizes) if values_I is None else values_I.split(sizes)
        for values_I in (pictures_I, *others_I)
    )
    return torch.cat([run(*part) for run, *part in zip(runs, *parts, strict=True)])


def offloaded(
    function: Callable[..., Tensor], pictures_I: Tensor, *others_I: Tensor | None
) -> Tensor:
    """Return ``function(pictures_I, *others_I)``, with activations in host memory until needed.

    After ByteScale (arXiv 2502.21231), but for all of them and not on a separate stream. A tensor
    that two operations save is copied twice, and weights are copied too. It has no effect on the
    CPU.
    """
    with save_on_cpu(pin_memory=pictures_I.is_cuda):
        return function(pictures_I, *others_I)
