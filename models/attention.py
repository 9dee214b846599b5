"""Multi-head attention on PyTorch's fused kernel.

I pictures (or any batch), Q query tokens, S memory tokens, D width, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention with the parameters of `torch.nn.MultiheadAttention`, batch first.

    Names and layout (``in_proj_weight``, ``in_proj_bias``, ``out_proj``) are those of PyTorch's
    module, so that a DETR checkpoint fits. It never returns its weights, so the fused kernel can
    run.
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
        """Let every query read the memory; return ``(I, Q, D)``.

        `bias` is added to the scores ``(I, H, Q, S)`` and may be broadcast; a bool one hides the
        memory where it is False.
        """
        weights, offsets = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = zip((query_IQD, key_ISD, value_ISD), weights, offsets, strict=True)
        query, key, value = (split_heads(F.linear(*part), self.heads) for part in parts)
        return self._attend(query, key, value, bias)

    def self_attention(
        self, tokens_ISD: Tensor, position: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Let tokens attend to each other.

        The position ``(S, D)`` or ``(I, S, D)`` is added to queries and keys. One matrix
        product computes all projections; the projected position is added to it.
        """
        query_key_width = 2 * tokens_ISD.shape[-1]
        projected = F.linear(tokens_ISD, self.in_proj_weight, self.in_proj_bias)
        shift = F.linear(position, self.in_proj_weight[:query_key_width])
        projected = projected + F.pad(shift, (0, query_key_width // 2))
        query, key, value = (split_heads(part, self.heads) for part in projected.chunk(3, dim=-1))
        return self._attend(query, key, value, bias)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, bias, dropout)
        return self.out_proj(join_heads(context))


def split_heads(tokens_ISD: Tensor, heads: int) -> Tensor:
    """Split channels into heads, as a view: ``(I, S, D)`` -> ``(I, H, S, D / H)``."""
    return tokens_ISD.unflatten(-1, (heads, -1)).transpose(-2, -3)


def join_heads(tokens: Tensor) -> Tensor:
    """Join the channels of heads: ``(I, H, S, D / H)`` -> ``(I, S, D)``."""
    return tokens.transpose(-2, -3).flatten(-2)
