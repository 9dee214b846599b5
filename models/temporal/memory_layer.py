"""A temporal layer that is a `FrameLayer` with a memory of each query's own past.

B blocks, T slots, N queries, D width.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from models.temporal.frame_layer import FrameLayer
from models.transformer import Sublayer


class MemoryLayer(nn.Module):
    """The present frame first, on all slots; then a memory along time, for every query by itself.

    Without its memory it is the layer of `none`. The memory is called as
    ``memory(read_BTND, start_BT, state)`` and returns what each slot remembers, itself included,
    ``(B, T, N, D)``, and the state after the last slot.

    Args:
        memory: the class of the memory, built with width and heads.
    """

    def __init__(
        self,
        memory: Callable[[int, int], nn.Module],
        width: int,
        heads: int,
        feedforward: int,
        dropout: float,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.frame = FrameLayer(width, heads, feedforward, dropout, norm_first)
        self.sublayer = Sublayer(width, dropout, norm_first)
        self.memory = memory(width, heads)
        self.out_proj = nn.Linear(width, width)

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: Any | None,
    ) -> tuple[Tensor, Any]:
        embeddings_BTND = self.frame(embeddings_BTND, query_position_ND)
        read_BTND = self.sublayer.before(embeddings_BTND)
        remembered_BTND, state = self.memory(read_BTND, start_BT, state)
        return self.sublayer.after(embeddings_BTND, self.out_proj(remembered_BTND)), state
