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
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from bload.spread import Spread, transfers


def share_pictures(
    pixels_ICHW: Tensor, extent_I2: Tensor | None
) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Tensor]]:
    """Agree with all ranks who computes which pictures; they differ by at most one in number.

    Returns:
        Pixels and extents of the pictures that this rank computes, and a function that brings
        values ``(L, J, ...)`` of these home, as ``(L, I, ...)``. All ranks must call it equally
        often.
    """
    own_counts = torch.tensor([len(pixels_ICHW), extent_I2 is not None])
    all_R2 = [torch.empty_like(own_counts) for _ in range(dist.get_world_size())]
    dist.all_gather(all_R2, own_counts)
    pictures_R, has_extents_R = torch.stack(all_R2).numpy().T
    spread = Spread(transfers(pictures_R), dist.get_rank())
    if extent_I2 is None and has_extents_R.any():
        extent_I2 = torch.ones(len(pixels_ICHW), 2, device=pixels_ICHW.device)
    extent_J2 = None if extent_I2 is None else spread.away(extent_I2)
    return spread.away(pixels_ICHW), extent_J2, partial(spread.home, dim=1)
