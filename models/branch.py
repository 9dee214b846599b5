"""A branch of the network: queries that read the encoded frames, then the past.

B blocks, T slots, I = B * T pictures, S tokens, N queries, D width, L layers, W waves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from bload.batch.walk_order import WalkOrder
from models.anchors import Windows
from models.exchange import HERE, Spread
from models.padding import put
from models.position import NEAR_WAVES, sine_position
from models.temporal import build_temporal
from models.temporal.layers import in_chunks
from models.transformer import LayerSizes, SpatialDecoder

GAP_WAVES = 16
SLOWEST, FASTEST = 0.3, 8.0
"""Radians per e-fold of gap + 1: the slowest wave makes half a turn from 0 to 35,000 frames, the
fastest turns by 3 radians from 1 to 2."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The encoded frames."""

    memory_ISD: Tensor
    placed_ISD: Tensor
    """`memory_ISD` with the positions added."""
    centres: Tensor
    """Centres (x, y) of the tokens as shares of the picture: ``(S, 2)``, or ``(I, S, 2)``."""
    inside_IS: Tensor | None
    """Bool, False on tokens outside the picture; None: all are inside."""
    grid: tuple[int, int]
    """Rows and columns."""


class GapEmbedding(nn.Module):
    """Embedding of the time since the previous frame, for frames at unequal distances.

    A linear layer on sines and cosines of log(1 + gap), which resolve small gaps finely and large
    ones coarsely. The layer starts at zero: training starts as without gaps.
    """

    speeds_W: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        speeds_W = torch.logspace(0, 1, GAP_WAVES, base=FASTEST / SLOWEST) * SLOWEST
        self.register_buffer("speeds_W", speeds_W, persistent=False)
        self.linear = nn.Linear(2 * GAP_WAVES, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, gap_BT: Tensor) -> Tensor:
        """Gaps in frames of the native rate, 0 on a video's first frame -> ``(B, T, D)``."""
        angle_BTW = gap_BT.to(self.speeds_W.dtype).log1p()[..., None] * self.speeds_W
        return self.linear(torch.cat((angle_BTW.sin(), angle_BTW.cos()), dim=-1))


class Branch(nn.Module):
    """One of the two branches: its own queries, spatial decoder and temporal decoder."""

    def __init__(
        self,
        queries: int,
        decoder_layers: int,
        temporal_layers: int,
        temporal: str,
        timed: bool,
        anchored: bool,
        **sizes: Unpack[LayerSizes],
    ) -> None:
        super().__init__()
        width = sizes["width"]
        self.query_embed = nn.Embedding(queries, width)
        self.decoder = SpatialDecoder(decoder_layers, **sizes)
        self.temporal = build_temporal(temporal, temporal_layers, **sizes)
        self.gap = GapEmbedding(width) if timed else None
        self.windows = None
        if anchored:
            self.windows = Windows(queries, sizes["heads"])
            position_ND = sine_position(self.windows.points_N2, width, **NEAR_WAVES)
            self.query_embed.weight = nn.Parameter(position_ND)

    def forward(
        self,
        tokens: Tokens,
        start_BT: Tensor,
        orders: Sequence[WalkOrder],
        gap_BT: Tensor | None = None,
        computed_BT: Tensor | None = None,
        spread: Spread = HERE,
        state: Any = None,
    ) -> tuple[Tensor, Any]:
        """Return embeddings of the spatial and temporal layers, ``(L, B, T, N, D)``, and the state.

        `computed_BT` marks the slots whose tokens are given, and `spread` the ranks that have them;
        `orders` as in `models.temporal.layers.in_chunks`, `gap_BT` and `state`, that of the
        temporal part, as in `models.dds.DDS.forward`.
        """
        spatial_LIND = spread.home(self.spatial(tokens))
        spatial = put(spatial_LIND, (start_BT.shape[0], start_BT.shape[1]), computed_BT)
        last = spatial[-1]
        if self.gap is not None:
            last = last + self.gap(gap_BT)[:, :, None].to(last.dtype)
        temporal, state = in_chunks(
            self.temporal, last, self.query_embed.weight, start_BT, orders, computed_BT, state
        )
        return torch.cat((spatial, temporal)), state

    def spatial(self, tokens: Tokens) -> Tensor:
        """Return the embeddings of the spatial layers, ``(L, I, N, D)``."""
        position_ND = self.query_embed.weight
        seen = as_keys(tokens.inside_IS)
        if self.windows is None:
            return self.decoder(position_ND, tokens.placed_ISD, tokens.memory_ISD, seen)
        # Values have positions too: boxes are places, and few layers are there to find them.
        windows = self.windows(tokens.centres).to(tokens.memory_ISD.dtype)
        if seen is not None:
            windows = windows.masked_fill(~seen, float("-inf"))
        return self.decoder(position_ND, tokens.placed_ISD, tokens.placed_ISD, windows)


def as_keys(inside_IS: Tensor | None) -> Tensor | None:
    """Shape the mask of tokens for all heads and queries: bool ``(I, 1, 1, S)``."""
    return None if inside_IS is None else inside_IS[:, None, None]
