"""How long ago the previous frame was, for frames that do not stand at equal distances.

B blocks, T slots, D width.
"""

import torch
from torch import Tensor, nn

WAVES = 16
SLOWEST, FASTEST = 0.3, 8.0
"""Radians a wave turns while the time, plus one frame, grows e-fold: half a turn from 0 to 35,000
frames, and 3 radians from one frame to two."""


class GapEmbedding(nn.Module):
    """What is added to a frame's embedding for the time since the frame before it.

    Sines and cosines of log(1 + gap), so that small gaps are told apart finely and large ones
    coarsely, and a linear layer. That layer starts at zero: training starts as without gaps.
    """

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
