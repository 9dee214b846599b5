"""Multi-head attention on PyTorch's fused kernel.

I pictures (or any batch), Q query tokens, S memory tokens, D width, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention with the parameters of `torch.nn.MultiheadAttention`, batch first.

    Names and layout (``in_proj_weight``, ``in_proj_bias``, ``out_proj``) are those of PyTorch's
    module, so that a DETR checkpoint fits. It never returns its weights, which is what lets the
    fused kernel run.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, query_IQD: Tensor, key_ISD: Tensor, value_ISD: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Let every query read the memory; returns ``(I, Q, D)``.

        `bias` is added to the scores ``(I, H, Q, S)`` and may be broadcast; where a bool one is
        False, the memory is not seen.
        """
        weights, offsets = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        query, key, value = (
            split_heads(F.linear(tokens, weight, offset), self.heads)
            for tokens, weight, offset in zip(
                (query_IQD, key_ISD, value_ISD), weights, offsets, strict=True
            )
        )
        dropout = self.dropout if self.training else 0.0
        read = F.scaled_dot_product_attention(query, key, value, bias, dropout)
        return self.out_proj(join_heads(read))


def split_heads(tokens_ISD: Tensor, heads: int) -> Tensor:
    """``(I, S, D)`` -> ``(I, H, S, D / H)``, a view."""
    return tokens_ISD.unflatten(-1, (heads, -1)).transpose(-2, -3)


def join_heads(tokens: Tensor) -> Tensor:
    """``(I, H, S, D / H)`` -> ``(I, S, D)``."""
    return tokens.transpose(-2, -3).flatten(-2)
