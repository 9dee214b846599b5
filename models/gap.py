"""Time between frames as an input of the network: ``model.time=gap``.

B blocks, T slots, D width, W waves.
"""

import torch
from torch import Tensor, nn

WAVES = 16
SLOWEST, FASTEST = 0.3, 8.0
"""Radians per e-fold of gap + 1: the slowest wave makes half a turn from 0 to 35,000 frames, the
fastest turns by 3 radians from 1 to 2."""


class GapEmbedding(nn.Module):
    """Embedding of the time since the previous frame, for frames at unequal distances.

    A linear layer on sines and cosines of log(1 + gap), which resolve small gaps finely and large
    ones coarsely. The layer starts at zero: training starts as without gaps.
    """

    speeds_W: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        speeds_W = torch.logspace(0, 1, WAVES, base=FASTEST / SLOWEST) * SLOWEST
        self.register_buffer("speeds_W", speeds_W, persistent=False)
        self.linear = nn.Linear(2 * WAVES, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, gap_BT: Tensor) -> Tensor:
        """Gaps in frames of the native rate, 0 on a video's first frame -> ``(B, T, D)``."""
        angle_BTW = gap_BT.to(self.speeds_W.dtype).log1p()[..., None] * self.speeds_W
        return self.linear(torch.cat((angle_BTW.sin(), angle_BTW.cos()), dim=-1))
