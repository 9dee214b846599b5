"""The baseline without a memory.

B blocks, T slots, N queries, D width.
"""

from torch import Tensor

from models.temporal.frame_layer import FrameLayer


class MemorylessLayer(FrameLayer):
    """The layer of the other parts without its memory, so that only the memory is missing."""

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: None,
    ) -> tuple[Tensor, None]:
        return super().forward(embeddings_BTND, query_position_ND), None
