"""A branch of the network: queries that read the encoded frames, then the past.

B blocks, T slots, I = B * T pictures, S tokens, N queries, D width, L layers, W waves.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from models.network_input import NetworkInput
from models.position import NEAR_WAVES, Windows, sine_position
from models.temporal import TEMPORAL_PARTS
from models.temporal.layers import TemporalStack
from models.transformer import LayerSizes, SpatialDecoder

WAVES = 16
SLOWEST, FASTEST = 0.3, 8.0
"""Radians per e-fold of gap + 1: the slowest wave makes half a turn from 0 to 35,000 frames, the
fastest turns by 3 radians from 1 to 2."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The encoded frames, as tokens in rows of a grid."""

    memory_ISD: Tensor
    placed_ISD: Tensor
    """`memory_ISD` with the positions added."""
    centres: Tensor
    """Centres (x, y) of the tokens as shares of the picture: ``(S, 2)``, or ``(I, S, 2)``."""
    inside_IS: Tensor | None
    """Bool, False on tokens outside the picture; None: all are inside."""
    grid: tuple[int, int]
    """Rows and columns."""


def to_key_mask(inside_IS: Tensor | None) -> Tensor | None:
    """Shape the mask of tokens for all heads and queries: bool ``(I, 1, 1, S)``."""
    return None if inside_IS is None else inside_IS[:, None, None]


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


class Branch(nn.Module):
    """One of the two branches: its own queries, spatial decoder and temporal decoder.

    The arguments are those of `models.dds.DDS`.
    """

    def __init__(
        self,
        queries: int,
        decoder_layers: int,
        temporal_layers: int,
        temporal: str,
        time: str,
        anchored: bool,
        **sizes: Unpack[LayerSizes],
    ) -> None:
        super().__init__()
        width = sizes["width"]
        self.query_embed = nn.Embedding(queries, width)
        self.decoder = SpatialDecoder(decoder_layers, **sizes)
        self.temporal = TemporalStack(TEMPORAL_PARTS[temporal], temporal_layers, **sizes)
        self.gap = GapEmbedding(width) if time == "gap" else None
        self.windows = None
        if anchored:
            self.windows = Windows(queries, sizes["heads"])
            position_ND = sine_position(self.windows.points_N2, width, **NEAR_WAVES)
            self.query_embed.weight = nn.Parameter(position_ND)

    def forward(
        self, spatial_LBTND: Tensor, inputs: NetworkInput, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return embeddings of the spatial and temporal layers, ``(L, B, T, N, D)``, and the state.

        Args:
            spatial_LBTND: those of `spatial`, in their slots.
            inputs: from `NetworkInput.prepare`.
            state: that of the temporal part after the slots before; None: every row begins anew.
        """
        temporal_input = spatial_LBTND[-1]
        if self.gap is not None:
            gap_BTD = self.gap(inputs.gap_BT)
            temporal_input = temporal_input + gap_BTD[:, :, None].to(temporal_input.dtype)
        temporal, state = self.temporal(
            temporal_input, self.query_embed.weight, inputs.start_BT, state, inputs.order
        )
        return torch.cat((spatial_LBTND, temporal)), state

    def spatial(self, tokens: Tokens) -> Tensor:
        """Return the embeddings of the spatial layers, ``(L, I, N, D)``."""
        position_ND = self.query_embed.weight
        key_mask = to_key_mask(tokens.inside_IS)
        if self.windows is None:
            return self.decoder(position_ND, tokens.placed_ISD, tokens.memory_ISD, key_mask)
        # Values have positions too: with few layers, a query could not infer them for its boxes.
        windows = self.windows(tokens.centres).to(tokens.memory_ISD.dtype)
        if key_mask is not None:
            windows = windows.masked_fill(~key_mask, float("-inf"))
        return self.decoder(position_ND, tokens.placed_ISD, tokens.placed_ISD, windows)
