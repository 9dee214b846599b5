"""The temporal part: how the embeddings of the frames before reach the present one.

B blocks, T slots, N queries, D width, L layers.

Every temporal part is called as ``part(embeddings_BTND, query_position_ND, start_BT, state)`` and
returns the embeddings after each of its layers, ``(L, B, T, N, D)``, and the state after the last
slot. A new part is one class and one entry in `TEMPORAL`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bload.errors import InputError
from bload.state import walk
from models.attention import Attention, join_heads, split_heads
from models.transformer import FeedForward, Sublayer

LONGEST_MEMORY = 94
"""Frames that the slowest channels remember before training: a full block."""


class FrameLayer(nn.Module):
    """The half of a temporal layer that needs the present frame alone: it runs on all slots."""

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


@dataclass(frozen=True)
class Recurrence:
    """What one temporal layer does from slot to slot: `bload.state.walk` calls it.

    The inputs of a slot are, side by side in the last dimension, the query projection, the present
    embedding and the present frame's share of the gate, ``(B, N, 3 D)``: all that can be computed
    without the state has been. What is left costs nine small kernels a slot.
    """

    heads: int
    empty_D: Tensor
    norm_weight_D: Tensor
    norm_bias_D: Tensor
    memory_weight: Tensor
    """Keys, values and gate of the memory, ``(D, 3 D)``."""
    memory_bias: Tensor
    """Their biases with the position of each query, ``(B N, 3 D)``."""
    out_weight: Tensor
    out_bias: Tensor

    def init_state(self, inputs: Tensor) -> Tensor:
        """No previous frame: every query finds the learned empty embedding."""
        return self.empty_D.expand(*inputs.shape[:2], -1)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One slot: inputs ``(B, N, 3 D)``, state ``(B, N, D)`` -> embeddings, twice."""
        blocks, queries, width = state.shape
        query, present, gate = inputs.split(width, dim=-1)
        memory = F.layer_norm(state, (width,), self.norm_weight_D, self.norm_bias_D)
        projected = torch.addmm(self.memory_bias, memory.view(-1, width), self.memory_weight)
        key, value, memory_gate = projected.view(blocks, queries, -1).split(width, dim=-1)
        read = F.scaled_dot_product_attention(
            *(split_heads(tokens, self.heads) for tokens in (query, key, value))
        )
        update = F.linear(join_heads(read), self.out_weight, self.out_bias) + present
        state = torch.lerp(state, update, torch.sigmoid(gate + memory_gate))
        return state, state


class TemporalLayer(nn.Module):
    """A decoder layer whose queries are the present frame and whose memory is the frame before.

    Self-attention and feed-forward come first, on all slots at once; attention to the previous
    frame's output embeddings comes last, so that only this part walks. Its result does not simply
    add to the embedding: a gate mixes it, channel by channel, with the query's previous embedding,

        output_t = (1 - z) output_{t-1} + z (embedding_t + attention(embedding_t, output_{t-1})).

    An embedding that had to pass through the attention of 90 frames would not come out again; a
    closed gate keeps it as it is. The gates start with memories from one frame to
    `LONGEST_MEMORY` frames, spread over the channels, so that gradients reach far back from the
    first step on (chrono initialisation, arXiv 1804.11188). The paper's public description does
    not say how its layer is normed or mixed; this is our reading.
    """

    def __init__(
        self, width: int, heads: int, feedforward: int, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        self.heads = heads
        self.frame = FrameLayer(width, heads, feedforward, dropout, norm_first)
        self.present_norm = nn.LayerNorm(width)
        self.memory_norm = nn.LayerNorm(width)
        self.memory_attn = Attention(width, heads)
        self.present_gate = nn.Linear(width, width)
        self.memory_gate = nn.Linear(width, width, bias=False)
        self.empty = nn.Parameter(torch.randn(width))
        for gate in (self.present_gate, self.memory_gate):
            nn.init.normal_(gate.weight, std=0.1 * width**-0.5)
        memories = torch.logspace(0, 1, width, base=LONGEST_MEMORY) + 0.2
        with torch.no_grad():
            self.present_gate.bias.copy_(-torch.log(memories - 1))

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Embeddings ``(B, T, N, D)`` -> outputs ``(B, T, N, D)`` and the last slot's outputs."""
        present = self.frame(embeddings_BTND, query_position_ND)
        width = present.shape[-1]
        # Autocast ends here: roundings of half precision would add up over the slots.
        with torch.autocast(present.device.type, enabled=False):
            present = self.present_norm(present.to(self.empty.dtype))
            position = query_position_ND.to(self.empty.dtype)
            attention = self.memory_attn
            weight_q, weight_kv = attention.in_proj_weight.split((width, 2 * width))
            bias_q, bias_kv = attention.in_proj_bias.split((width, 2 * width))
            query = F.linear(present + position, weight_q, bias_q)
            inputs = torch.cat((query, present, self.present_gate(present)), dim=-1)
            # Positions belong to keys alone; values and the gate's share have none.
            key_bias = F.linear(position, weight_kv[:width], bias_kv[:width])
            memory_bias = torch.cat(
                (key_bias, F.pad(bias_kv[width:], (0, width)).expand(len(position), -1)), dim=-1
            )
            recurrence = Recurrence(
                heads=self.heads,
                empty_D=self.empty,
                norm_weight_D=self.memory_norm.weight,
                norm_bias_D=self.memory_norm.bias,
                memory_weight=torch.cat((weight_kv, self.memory_gate.weight)).t(),
                memory_bias=memory_bias.repeat(len(present), 1),
                out_weight=attention.out_proj.weight,
                out_bias=attention.out_proj.bias,
            )
            return walk(recurrence, inputs, start_BT, state)


class TemporalDecoder(nn.Module):
    """DDS's temporal decoder: layers that each attend to their own outputs one frame before.

    The state is a list with one ``(B, N, D)`` a layer. Since a layer looks at its own previous
    outputs, the layers walk one after another and each precomputes its share for all slots; the
    last layer's state is the previous frame's final embeddings.
    """

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TemporalLayer(width, heads, feedforward, dropout, norm_first) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        outputs_L, states = [], []
        for index, layer in enumerate(self.layers):
            before = None if state is None else state[index]
            embeddings_BTND, after = layer(embeddings_BTND, query_position_ND, start_BT, before)
            outputs_L.append(embeddings_BTND)
            states.append(after)
        return self.norm(torch.stack(outputs_L)), states


class Memoryless(nn.Module):
    """The baseline: the same layers without a memory, so that only the memory is missing."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            FrameLayer(width, heads, feedforward, dropout, norm_first) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: None = None,
    ) -> tuple[Tensor, None]:
        outputs_L = []
        for layer in self.layers:
            embeddings_BTND = layer(embeddings_BTND, query_position_ND)
            outputs_L.append(embeddings_BTND)
        return self.norm(torch.stack(outputs_L)), None


TEMPORAL: dict[str, Callable[..., nn.Module]] = {"dds": TemporalDecoder, "none": Memoryless}


def build_temporal(name: str, **sizes: int | float | bool) -> nn.Module:
    """Build a temporal part by name.

    Raises:
        InputError: no temporal part has that name.
    """
    if name not in TEMPORAL:
        raise InputError(
            f"no temporal part is called '{name}'; set model.temporal to one of "
            f"{', '.join(TEMPORAL)}"
        )
    return TEMPORAL[name](**sizes)
