"""Heads of the network. N queries, D width."""

from torch import Tensor, nn


class BoxHead(nn.Module):
    """Box head of three linear layers, as in DETR: a box (cx, cy, w, h) in 0..1.

    With a reference, in logits, the box is relative to it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, out_width) for out_width in (width, width, 4))

    def forward(self, embeddings: Tensor, reference: Tensor | None = None) -> Tensor:
        """Embeddings ``(..., N, D)``, reference ``(..., N or 1, 4)`` -> boxes ``(..., N, 4)``."""
        first, second, last = self.layers
        logits = last(second(first(embeddings).relu()).relu())
        return (logits if reference is None else logits + reference).sigmoid()
