"""Less memory for more time: recompute the per-frame part in the backward pass, or offload it.

I pictures, C H W image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    """Recompute the per-frame part of the first pictures, a share of all, in the backward pass.

    Of these only inputs and outputs are saved. The backward pass computes them again, chunk by
    chunk and with the same random numbers, so gradients are the same. It reaches them last, when
    what was saved for the rest is gone, so that a chunk does not raise the peak. Works under DDP.
    """

    share: float = 1.0

    def encode(self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        count = round(self.share * len(frames_ICHW))
        if not count or not torch.is_grad_enabled():
            return network.encode(frames_ICHW, extent_I2)
        ends = [*range(CHUNK, count, CHUNK), count]
        frames = frames_ICHW.tensor_split(ends)
        extents: Sequence[Tensor | None] = [None] * len(frames)
        if extent_I2 is not None:
            extents = extent_I2.tensor_split(ends)
        *chunks, rest = zip(frames, extents, strict=True)
        outputs = [checkpoint(network.encode, *chunk, use_reentrant=False) for chunk in chunks]
        if count < len(frames_ICHW):
            outputs.append(network.encode(*rest))
        return torch.cat(outputs)


@dataclass(frozen=True)
class Offload(Execution):
    """Keep the activations of the per-frame part in host memory until they are needed.

    After ByteScale (arXiv 2502.21231), but for all of them and not on a separate stream. A tensor
    that two operations save is copied twice, and weights are copied too. It has no effect on the
    CPU.
    """

    def encode(self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        with save_on_cpu(pin_memory=frames_ICHW.is_cuda):
            return network.encode(frames_ICHW, extent_I2)
