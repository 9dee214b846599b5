"""The head that predicts a box from each embedding.

N queries, D width.
"""

from torch import Tensor, nn


class BoxHead(nn.Module):
    """Three linear layers to a box (cx, cy, w, h) in 0..1, as in DETR.

    With a reference, in logits, the box is relative to it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, out) for out in (width, width, 4))

    def forward(self, embeddings: Tensor, reference: Tensor | None = None) -> Tensor:
        """Embeddings ``(..., N, D)``, reference ``(..., N or 1, 4)`` -> boxes ``(..., N, 4)``."""
        first, second, last = self.layers
        logits = last(second(first(embeddings).relu()).relu())
        return (logits if reference is None else logits + reference).sigmoid()
