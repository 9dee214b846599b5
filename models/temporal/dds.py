"""DDS's temporal part: every frame attends to the embeddings of the frame before.

B blocks, T slots, N queries, D width.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import Attention, join_heads, split_heads
from models.temporal.layers import MemorylessLayer, Remember, gate_bias
from models.temporal.operator import EPS
from models.temporal.recurrence import Begun, exactly
from models.transformer import LayerSizes


@dataclass(frozen=True)
class Recurrence:
    """One temporal layer's step from slot to slot.

    The inputs of a slot are, side by side in the last dimension, the query projection, the present
    embedding with the output's bias and the present frame's share of the gate, ``(B, N, 3 D)``: all
    that can be computed without the state has been.
    """

    heads: int
    empty_D: Tensor
    weight: Tensor
    """Keys, values and gate of the normed memory, ``(D, 3 D)``."""
    bias: Tensor
    """Their biases with the position of each query, ``(N, 3 D)``."""
    out_weight: Tensor

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Those of the operator."""
        return self.weight, self.bias, self.out_weight

    def init_state(self, inputs: Tensor) -> Tensor:
        """No previous frame: every query finds the learned empty memory."""
        return self.empty_D.expand(*inputs.shape[:2], -1)

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """One slot: inputs ``(B, N, 3 D)``, state ``(B, N, D)`` -> the new memory, twice."""
        query, present, gate = inputs.chunk(3, dim=-1)
        memory = F.layer_norm(state, state.shape[-1:], eps=EPS)
        key, value, memory_gate = (memory @ self.weight + self.bias).chunk(3, dim=-1)
        query, key, value = (split_heads(tokens, self.heads) for tokens in (query, key, value))
        read = F.scaled_dot_product_attention(query, key, value)
        update = F.linear(join_heads(read), self.out_weight) + present
        state = torch.lerp(state, update, torch.sigmoid(gate + memory_gate))
        return state, state

    operator: ClassVar = "dds"

    @property
    def options(self) -> tuple[int, ...]:
        """What else the operator takes."""
        return (self.heads,)


class TemporalLayer(MemorylessLayer):
    """A decoder layer whose queries are the present frame and whose memory is the frame before.

    Self-attention and feed-forward come first, on all slots at once. Then each query attends to the
    memories of all queries one frame before; only this part walks. What it finds does not simply
    add to the memory: a gate mixes it, channel by channel, with the query's own,

        memory_t = (1 - z) memory_{t-1} + z (embedding_t + attention(embedding_t, memory_{t-1}))
        output_t = embedding_t + W memory_t.

    A memory that had to pass through the attention of 90 frames would not come out again; a closed
    gate keeps it as it is. The gates start with memories from one frame to 94 frames, spread over
    the channels, so that gradients reach far back from the first step on. W starts at zero, so that
    an untrained memory blurs nothing: boxes in particular are the present frame's. The paper's
    public description does not say how its layer is normed or mixed; this is our reading.
    """

    mixes_queries = True

    def __init__(self, **sizes: Unpack[LayerSizes]) -> None:
        super().__init__(**sizes)
        width = sizes["width"]
        self.heads = sizes["heads"]
        self.present_norm = nn.LayerNorm(width)
        self.memory_norm = nn.LayerNorm(width)
        self.memory_attn = Attention(width, self.heads)
        self.present_gate = nn.Linear(width, width)
        self.memory_gate = nn.Linear(width, width, bias=False)
        self.empty = nn.Parameter(torch.randn(width))
        self.readout = nn.Linear(width, width)
        for parameter in self.readout.parameters():
            nn.init.zeros_(parameter)
        for gate in (self.present_gate, self.memory_gate):
            nn.init.normal_(gate.weight, std=0.1 * width**-0.5)
        with torch.no_grad():
            self.present_gate.bias.copy_(gate_bias(width))

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: Any,
        computed_BT: Tensor | None = None,
        remember: Remember | None = None,
    ) -> tuple[Tensor, Any]:
        """Embeddings ``(B, T, N, D)`` -> outputs ``(B, T, N, D)`` and the last memory."""
        assert remember is None  # it mixes queries
        return self.begin(embeddings_BTND, query_position_ND, computed_BT).by_slots(start_BT, state)

    def begin(
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, computed_BT: Tensor | None
    ) -> Begun:
        """Do everything that can be done before the walk."""
        present = self.present(embeddings_BTND, query_position_ND, computed_BT)
        with exactly(present.device):
            present = self.present_norm(present.to(self.empty.dtype))
            position = query_position_ND.to(self.empty.dtype)
            attention, width = self.memory_attn, len(self.empty)
            query = F.linear(
                present + position, attention.in_proj_weight[:width], attention.in_proj_bias[:width]
            )
            biased = present + attention.out_proj.bias
            inputs = torch.cat((query, biased, self.present_gate(present)), dim=-1)
            recurrence = self.recurrence(position)

        def finish(memory_BTND: Tensor) -> Tensor:
            with exactly(present.device):
                return present + self.readout(memory_BTND)

        return Begun(recurrence, inputs, finish)

    def recurrence(self, position_ND: Tensor) -> Recurrence:
        """The weights as a step takes them, those of the norm within those that follow it."""
        attention, norm, width = self.memory_attn, self.memory_norm, len(self.empty)
        weight_kv, bias_kv = attention.in_proj_weight[width:], attention.in_proj_bias[width:]
        weight = torch.cat((weight_kv, self.memory_gate.weight)).t()
        # Positions belong to keys alone; values and the gate's share have none.
        bias = F.pad(bias_kv, (0, width)) + norm.bias @ weight
        position = F.pad(F.linear(position_ND, weight_kv[:width]), (0, 2 * width))
        return Recurrence(
            heads=self.heads,
            empty_D=self.empty,
            weight=norm.weight[:, None] * weight,
            bias=bias + position,
            out_weight=attention.out_proj.weight,
        )
