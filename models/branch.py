"""A branch of the network: queries that read the encoded frames, then the frames before.

B blocks, T slots, I = B * T pictures, S tokens, N queries, D width, L layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.anchors import Windows
from models.position import NEAR_WAVES, sine_position
from models.temporal import build_temporal, in_chunks
from models.temporal.gap import GapEmbedding
from models.transformer import SpatialDecoder


@dataclass(frozen=True, slots=True)
class Tokens:
    """The encoded frames."""

    memory_ISD: Tensor
    placed_ISD: Tensor
    """With their positions."""
    centres: Tensor
    """Where the tokens are, (x, y) as shares of the picture: ``(S, 2)``, or ``(I, S, 2)``."""
    inside_IS: Tensor | None
    """Bool, False on tokens beside the picture; None: all are in it."""
    grid: tuple[int, int]
    """Rows and columns."""


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
        **sizes,
    ) -> None:
        super().__init__()
        self.query_embed = nn.Embedding(queries, sizes["width"])
        self.decoder = SpatialDecoder(decoder_layers, **sizes)
        self.temporal = build_temporal(temporal, layers=temporal_layers, **sizes)
        self.gap = GapEmbedding(sizes["width"]) if timed else None
        self.windows = None
        if anchored:
            self.windows = Windows(queries, sizes["heads"])
            position_ND = sine_position(self.windows.points_N2, sizes["width"], **NEAR_WAVES)
            self.query_embed.weight = nn.Parameter(position_ND)

    def forward(
        self,
        tokens: Tokens,
        start_BT: Tensor,
        bptt: int | None = None,
        gap_BT: Tensor | None = None,
    ) -> Tensor:
        """Returns the embeddings of all spatial, then all temporal layers, ``(L, B, T, N, D)``."""
        position_ND = self.query_embed.weight
        seen = as_keys(tokens.inside_IS)
        if self.windows is None:
            spatial = self.decoder(position_ND, tokens.placed_ISD, tokens.memory_ISD, seen)
        else:
            # Values with positions too: boxes are places, and few layers are there to find them.
            windows = self.windows(tokens.centres).to(tokens.memory_ISD.dtype)
            if seen is not None:
                windows = windows.masked_fill(~seen, float("-inf"))
            spatial = self.decoder(position_ND, tokens.placed_ISD, tokens.placed_ISD, windows)
        spatial = spatial.unflatten(1, tuple(start_BT.shape))
        timed = spatial[-1]
        if self.gap is not None:
            timed = timed + self.gap(gap_BT)[:, :, None].to(timed.dtype)
        temporal = in_chunks(self.temporal, timed, position_ND, start_BT, bptt)
        return torch.cat((spatial, temporal))


def as_keys(inside_IS: Tensor | None) -> Tensor | None:
    """Which tokens attention may see, for all heads and queries."""
    return None if inside_IS is None else inside_IS[:, None, None]
