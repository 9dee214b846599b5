"""Equal sharing of frames over ranks in training: ``train.exchange=frames``.

Ranks compute whole blocks, so they may hold unequal numbers of frames: if padding is skipped, or if
there are fewer blocks than ranks. Work on single frames is shared equally nevertheless, as in the
remapping of Zeppelin (arXiv 2509.21841):

```
|home|-> backbone, encoder, spatial decoders ->|home|-> temporal part, heads
```

I pictures of this rank's batch, J pictures that it computes, C H W image, L layers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from bload import Spread, transfers
from models.execution import Execution, Tokens

if TYPE_CHECKING:
    from models.dds import DDS


@dataclass(frozen=True)
class Exchange(Execution):
    """Compute as many pictures as every other rank, in training."""

    local_execution: Execution = field(default_factory=Execution)
    """How each rank computes its pictures."""

    def compute_tokens(
        self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None
    ) -> Tokens:
        if not network.training:
            return self.local_execution.compute_tokens(network, frames_ICHW, extent_I2)
        spread, extent_J2 = plan_exchange(frames_ICHW, extent_I2)
        tokens = self.local_execution.compute_tokens(network, spread.away(frames_ICHW), extent_J2)
        return replace(tokens, spread=spread)

    def apply(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        values = self.local_execution.apply(function, tokens)
        return tokens.spread.home(values, dim=1) if tokens.spread else values


def plan_exchange(frames_ICHW: Tensor, extent_I2: Tensor | None) -> tuple[Spread, Tensor | None]:
    """Agree with all ranks where the pictures of their batches are computed.

    Also return the extents of those that this rank computes.
    """
    own_counts = torch.tensor([len(frames_ICHW), extent_I2 is not None])
    all_R2 = [torch.empty_like(own_counts) for _ in range(dist.get_world_size())]
    dist.all_gather(all_R2, own_counts)
    pictures_R, has_extents_R = torch.stack(all_R2).numpy().T
    spread = Spread(transfers(pictures_R), dist.get_rank())
    if extent_I2 is None and has_extents_R.any():
        extent_I2 = torch.ones(len(frames_ICHW), 2, device=frames_ICHW.device)
    return spread, None if extent_I2 is None else spread.away(extent_I2)
