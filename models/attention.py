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
        width, dropout = len(self.out_proj.bias), self.dropout if self.training else 0.0
        if query_IQD.shape[-2] * self.heads <= width and not dropout and key_ISD.dim() == 3:
            return self._attend_few_queries(query_IQD, key_ISD, value_ISD, bias)
        weights, offsets = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        query, key, value = (
            split_heads(F.linear(tokens, weight, offset), self.heads)
            for tokens, weight, offset in zip(
                (query_IQD, key_ISD, value_ISD), weights, offsets, strict=True
            )
        )
        context = F.scaled_dot_product_attention(query, key, value, bias, dropout)
        return self.out_proj(join_heads(context))

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
        query, key, value = (
            split_heads(part, self.heads)
            for part in (projected + F.pad(shift, (0, query_key_width // 2))).chunk(3, dim=-1)
        )
        dropout = self.dropout if self.training else 0.0
        return self.out_proj(
            join_heads(F.scaled_dot_product_attention(query, key, value, bias, dropout))
        )

    def _attend_few_queries(
        self, query_IQD: Tensor, key_ISD: Tensor, value_ISD: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Compute `forward` for few queries: they are projected to the memory, not it to them.

        Weights are multiplied with each other first, those of queries with those of keys and those
        of values with those of outputs, so that a memory token costs only scores and sums. The
        keys' bias adds the same to all scores of a query, which the softmax cancels.
        """
        heads = self.heads
        query_HED, key_HED, value_HED = self.in_proj_weight.view(3, heads, -1, query_IQD.shape[-1])
        query_bias_E, _, value_bias_D = self.in_proj_bias.chunk(3)
        key_HDE = key_HED.transpose(1, 2) * query_HED.shape[1] ** -0.5
        projected_query = F.linear(
            query_IQD,
            (key_HDE @ query_HED).flatten(0, 1),
            (key_HDE @ query_bias_E.view(heads, -1, 1)).flatten(),
        ).view(len(query_IQD), -1, query_IQD.shape[-1])
        if bias is None:
            score = torch.bmm(projected_query, key_ISD.transpose(1, 2))
        else:
            if bias.dtype == torch.bool:
                bias = torch.zeros_like(bias, dtype=projected_query.dtype).masked_fill(
                    ~bias, float("-inf")
                )
            bias = bias.expand(-1, heads, query_IQD.shape[1], -1).transpose(1, 2).flatten(1, 2)
            score = torch.baddbmm(
                bias.to(projected_query.dtype), projected_query, key_ISD.transpose(1, 2)
            )
        context = torch.bmm(score.softmax(-1).to(value_ISD.dtype), value_ISD)
        out_weight, offset = self.out_proj.weight, self.out_proj.bias
        value_weight = (out_weight.unflatten(1, (heads, -1)).transpose(0, 1) @ value_HED).transpose(
            0, 1
        )
        return F.linear(
            context.view(*query_IQD.shape[:2], -1),
            value_weight.flatten(1),
            offset + out_weight @ value_bias_D,
        )


def split_heads(tokens_ISD: Tensor, heads: int) -> Tensor:
    """Split channels into heads, as a view: ``(I, S, D)`` -> ``(I, H, S, D / H)``."""
    return tokens_ISD.unflatten(-1, (heads, -1)).transpose(-2, -3)


def join_heads(tokens: Tensor) -> Tensor:
    """Join the channels of heads: ``(I, H, S, D / H)`` -> ``(I, S, D)``."""
    return tokens.transpose(-2, -3).flatten(-2)
