"""DDS's temporal part: every frame attends to the embeddings of the frame before.

B blocks, T slots, N queries, D width.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bload.batch.walk import walk
from models.temporal.layers import FrameLayer, gate_bias, no_autocast
from models.transformer import Attention, LayerSizes, join_heads, split_heads


@dataclass(frozen=True)
class DDSStep:
    """One temporal layer's step from slot to slot.

    The inputs of a slot, side by side in the last dimension of ``(B, N, 3 D)``, are all that does
    not depend on the memory: the query, the present embedding with the attention's output bias, and
    the present frame's share of the gate.
    """

    layer: "DDSLayer"
    weight: Tensor
    """Weight of keys, values and the memory's share of the gate, ``(3 D, D)``."""
    bias: Tensor
    """Their biases, with the position of each query, ``(N, 3 D)``."""

    def init_state(self, inputs: Tensor) -> Tensor:
        """Return the learned empty memory for every query: there is no previous frame."""
        return self.layer.empty.expand(*inputs.shape[:2], -1)

    def step(self, inputs: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        """Step one slot: inputs ``(B, N, 3 D)``, memory ``(B, N, D)`` -> the new memory, twice."""
        layer = self.layer
        query, present, present_gate = inputs.chunk(3, dim=-1)
        norm = layer.memory_norm
        normed = F.layer_norm(memory, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        projected = F.linear(normed, self.weight) + self.bias
        key, value, memory_gate = projected.chunk(3, dim=-1)
        query, key, value = (split_heads(tokens, layer.heads) for tokens in (query, key, value))
        read = join_heads(F.scaled_dot_product_attention(query, key, value))
        update = present + F.linear(read, layer.memory_attn.out_proj.weight)
        memory = torch.lerp(memory, update, torch.sigmoid(present_gate + memory_gate))
        return memory, memory


class DDSLayer(FrameLayer):
    """A decoder layer whose queries are the present frame and whose memory is the frame before.

    Self-attention and feed-forward come first, on all slots at once. Then each query attends to the
    memories of all queries one frame before; only this part walks. What it reads is not just added
    to the memory: a gate mixes it, channel by channel, with the query's own,

        memory_t = (1 - z) memory_{t-1} + z (embedding_t + attention(embedding_t, memory_{t-1}))
        output_t = embedding_t + W memory_t.

    A memory would not survive the attention of 90 frames; a closed gate keeps it as it is. Gates
    start with memories from 1 to 94 frames, spread over the channels, so that gradients reach far
    back from the first step on. W starts at zero, so that an untrained memory blurs nothing. Norms
    and mixing are our reading, since those of the paper could not be read.
    """

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
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, *walk_args: Any
    ) -> tuple[Tensor, Any]:
        """Embeddings ``(B, T, N, D)`` -> outputs ``(B, T, N, D)`` and the last memory."""
        present = self.encode_present(embeddings_BTND, query_position_ND)
        with no_autocast(present.device):
            present = self.present_norm(present.to(self.empty.dtype))
            position_ND = query_position_ND.to(self.empty.dtype)
            attention, width = self.memory_attn, len(self.empty)
            weight_q, weight_kv = attention.in_proj_weight.tensor_split((width,))
            bias_q, bias_kv = attention.in_proj_bias.tensor_split((width,))
            inputs = torch.cat(
                (
                    F.linear(present + position_ND, weight_q, bias_q),
                    present + attention.out_proj.bias,
                    self.present_gate(present),
                ),
                dim=-1,
            )
            # Positions belong to keys alone; the gate's share has no bias either.
            position_ND = F.linear(position_ND, weight_kv[:width])
            recurrence = DDSStep(
                layer=self,
                weight=torch.cat((weight_kv, self.memory_gate.weight)),
                bias=F.pad(bias_kv, (0, width)) + F.pad(position_ND, (0, 2 * width)),
            )
            memory, state = walk(recurrence, inputs, *walk_args)
            return present + self.readout(memory), state
