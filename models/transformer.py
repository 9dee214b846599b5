"""Encoder and decoder of single frames, as in DETR, and attention on PyTorch's fused kernel.

I pictures (all frames of all blocks side by side), S tokens, N queries, D width, L layers; of
attention: Q query tokens, S memory tokens, H heads.
Nothing here looks at another frame.
"""

from typing import TypedDict, Unpack

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


class LayerSizes(TypedDict):
    """Arguments of every layer, as in `models.dds.DDS`."""

    width: int
    heads: int
    feedforward: int
    dropout: float
    norm_first: bool


class FeedForward(nn.Module):
    """Feed-forward network: two linear layers with a ReLU between."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.linear1, self.linear2):
            nn.init.xavier_uniform_(linear.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.linear1(tokens).relu()))


class Sublayer(nn.Module):
    """Residual connection around a sub-layer, with its norm.

    The norm is after the sum, as in DETR, or before the sub-layer (`norm_first`), which trains
    small models from scratch without a warm-up.
    """

    def __init__(self, width: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def prepare(self, tokens: Tensor) -> Tensor:
        """Return the input of the sub-layer."""
        return self.norm(tokens) if self.norm_first else tokens

    def add_update(self, tokens: Tensor, update: Tensor) -> Tensor:
        """Add the sub-layer's update to the tokens."""
        tokens = tokens + self.dropout(update)
        return tokens if self.norm_first else self.norm(tokens)


class EncoderLayer(nn.Module):
    """Self-attention among the tokens of a frame, then feed-forward."""

    def __init__(
        self, width: int, heads: int, feedforward: int, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads, dropout)
        self.feedforward = FeedForward(width, feedforward, dropout)
        self.sublayer1 = Sublayer(width, dropout, norm_first)
        self.sublayer2 = Sublayer(width, dropout, norm_first)

    def forward(self, tokens_ISD: Tensor, position: Tensor, bias: Tensor | None = None) -> Tensor:
        """Tokens ``(I, S, D)`` -> ``(I, S, D)``; the position is added to queries and keys.

        The position is ``(S, D)`` or ``(I, S, D)``; `bias` as in `Attention`.
        """
        inputs = self.sublayer1.prepare(tokens_ISD)
        update = self.self_attn.self_attention(inputs, position, bias)
        tokens_ISD = self.sublayer1.add_update(tokens_ISD, update)
        update = self.feedforward(self.sublayer2.prepare(tokens_ISD))
        return self.sublayer2.add_update(tokens_ISD, update)


class DecoderLayer(nn.Module):
    """Self-attention among the queries, attention to the frame's tokens, feed-forward."""

    def __init__(
        self, width: int, heads: int, feedforward: int, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads, dropout)
        self.multihead_attn = Attention(width, heads, dropout)
        self.feedforward = FeedForward(width, feedforward, dropout)
        self.sublayer1 = Sublayer(width, dropout, norm_first)
        self.sublayer2 = Sublayer(width, dropout, norm_first)
        self.sublayer3 = Sublayer(width, dropout, norm_first)

    def forward(
        self,
        queries_IND: Tensor,
        query_position_ND: Tensor,
        key_ISD: Tensor,
        value_ISD: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Queries ``(I, N, D)`` -> ``(I, N, D)``; `bias` as in `Attention`, for the tokens."""
        inputs = self.sublayer1.prepare(queries_IND)
        update = self.self_attn.self_attention(inputs, query_position_ND)
        queries_IND = self.sublayer1.add_update(queries_IND, update)
        query_IND = self.sublayer2.prepare(queries_IND) + query_position_ND
        update = self.multihead_attn(query_IND, key_ISD, value_ISD, bias)
        queries_IND = self.sublayer2.add_update(queries_IND, update)
        update = self.feedforward(self.sublayer3.prepare(queries_IND))
        return self.sublayer3.add_update(queries_IND, update)


class Encoder(nn.Module):
    """A stack of encoder layers; pre-norm needs one more norm at the end."""

    def __init__(self, layers: int, **sizes: Unpack[LayerSizes]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(**sizes) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes["width"]) if sizes["norm_first"] else nn.Identity()

    def forward(self, tokens_ISD: Tensor, position: Tensor, bias: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            tokens_ISD = layer(tokens_ISD, position, bias)
        return self.norm(tokens_ISD)


class SpatialDecoder(nn.Module):
    """Learned queries that read one frame: the embeddings of every layer, normed."""

    def __init__(self, layers: int, **sizes: Unpack[LayerSizes]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(**sizes) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes["width"])

    def forward(
        self,
        query_position_ND: Tensor,
        key_ISD: Tensor,
        value_ISD: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Return the embeddings after each layer, ``(L, I, N, D)``; the queries start as zeros."""
        shape = (len(value_ISD), *query_position_ND.shape)
        queries_IND = torch.zeros(shape, dtype=value_ISD.dtype, device=value_ISD.device)
        embeddings_L = []
        for layer in self.layers:
            queries_IND = layer(queries_IND, query_position_ND, key_ISD, value_ISD, bias)
            embeddings_L.append(queries_IND)
        return self.norm(torch.stack(embeddings_L))
