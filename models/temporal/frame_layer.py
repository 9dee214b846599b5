"""The half of a temporal layer that needs the present frame alone.

B blocks, T slots, N queries, D width.
"""

from torch import Tensor, nn

from models.attention import Attention
from models.transformer import FeedForward, Sublayer


class FrameLayer(nn.Module):
    """Self-attention among a frame's queries, then feed-forward: it runs on all slots at once."""

    def __init__(
        self, width: int, heads: int, feedforward: int, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads, dropout)
        self.feedforward = FeedForward(width, feedforward, dropout)
        self.sublayer1 = Sublayer(width, dropout, norm_first)
        self.sublayer2 = Sublayer(width, dropout, norm_first)

    def forward(self, embeddings_BTND: Tensor, query_position_ND: Tensor) -> Tensor:
        read = self.sublayer1.before(embeddings_BTND)
        placed = read + query_position_ND
        update = self.self_attn(
            placed.flatten(0, 1), placed.flatten(0, 1), read.flatten(0, 1)
        ).view_as(read)
        embeddings_BTND = self.sublayer1.after(embeddings_BTND, update)
        update = self.feedforward(self.sublayer2.before(embeddings_BTND))
        return self.sublayer2.after(embeddings_BTND, update)
