"""The half of a temporal layer that needs the present frame alone.

B blocks, T slots, N queries, D width.
"""

from torch import Tensor

from models.transformer import EncoderLayer


class FrameLayer(EncoderLayer):
    """Self-attention among a frame's queries, then feed-forward: it runs on all slots at once."""

    def forward(self, embeddings_BTND: Tensor, query_position_ND: Tensor) -> Tensor:
        queries_IND = embeddings_BTND.flatten(0, 1)
        return super().forward(queries_IND, query_position_ND).view_as(embeddings_BTND)
