"""DDS's temporal part: every frame attends to the embeddings of the frame before.

B blocks, T slots, N queries, D width.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bload.state import walk
from models.attention import Attention, join_heads, split_heads
from models.temporal.layers import MemorylessLayer, Remember, gate_bias
from models.transformer import LayerSizes


@dataclass(frozen=True)
class Recurrence:
    """One temporal layer's step from slot to slot, for `bload.state.walk`.

    The inputs of a slot are, side by side in the last dimension, the query projection, the present
    embedding and the present frame's share of the gate, ``(B, N, 3 D)``: all that can be computed
    without the state has been. What is left costs nine small kernels per slot.
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
        """No previous frame: every query finds the learned empty memory."""
        return self.empty_D.expand(*inputs.shape[:2], -1)

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """One slot: inputs ``(B, N, 3 D)``, state ``(B, N, D)`` -> the new memory, twice."""
        blocks, queries, width = state.shape
        query, present, gate = inputs.split(width, dim=-1)
        memory = F.layer_norm(state, (width,), self.norm_weight_D, self.norm_bias_D)
        projected = torch.addmm(self.memory_bias, memory.view(-1, width), self.memory_weight)
        key, value, memory_gate = projected.view(blocks, queries, -1).split(width, dim=-1)
        query, key, value = (split_heads(tokens, self.heads) for tokens in (query, key, value))
        read = F.scaled_dot_product_attention(query, key, value)
        update = F.linear(join_heads(read), self.out_weight, self.out_bias) + present
        state = torch.lerp(state, update, torch.sigmoid(gate + memory_gate))
        return state, state


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
        present = self.present(embeddings_BTND, query_position_ND, computed_BT)
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
            memory, state = walk(recurrence, inputs, start_BT, state)
            return present + self.readout(memory), state
