"""DDS's temporal part: every frame attends to the embeddings of the frame before.

B blocks, T slots, N queries, D width.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bload.batch.walk import walk
from models.attention import Attention, join_heads, split_heads
from models.frames import Chunk
from models.temporal.layers import MemorylessLayer, gate_bias, no_autocast
from models.transformer import LayerSizes


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


class FoldedLinear:
    """A linear layer of a step, with one product for its weight's gradient, after the walk.

    Gradients of all slots ``(B, T, ...)`` reach the weight through the bias, an input of the walk.
    Not under `torch.compile`, which would take the inputs of the steps before there are any.
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight, self._fixed = weight, weight.detach()
        self._inputs_T: list[Tensor] = []

    def bias(self, bias_BTE: Tensor) -> Tensor:
        """Return the biases ``(B, T, N, E)`` for the steps: all of them have to be used."""
        return _WeightGradient.apply(bias_BTE, self._weight, self._inputs_T)

    def __call__(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Compute a step: inputs ``(B, N, D)``, biases ``(B, N, E)``."""
        if torch.is_grad_enabled():
            self._inputs_T.append(inputs.detach())
        return F.linear(inputs, self._fixed) + bias


class _WeightGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias_BTE: Tensor, weight: Tensor, inputs_T: list[Tensor]) -> Tensor:
        ctx.inputs_T = inputs_T  # filled by the steps
        return bias_BTE.view_as(bias_BTE)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BTE: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs = torch.stack(ctx.inputs_T, dim=1).flatten(0, -2)
        return grad_BTE, grad_BTE.flatten(0, -2).mT @ inputs, None


@dataclass(frozen=True)
class FoldedDDSStep(DDSStep):
    """`DDSStep` with what repeats per slot folded, for walks by slots.

    The norm's weight and bias are in `project`, and the biases of both products in the inputs
    ``(B, N, 5 D)``: the query, the present embedding, then biases of keys, values and gate.
    """

    project: FoldedLinear
    out: FoldedLinear

    def step(self, inputs: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        layer, width = self.layer, memory.shape[-1]
        query, present, biases = inputs.split((width, width, 3 * width), dim=-1)
        normed = F.layer_norm(memory, (width,), eps=layer.memory_norm.eps)
        key, value, gate = self.project(normed, biases).chunk(3, dim=-1)
        query, key, value = (split_heads(tokens, layer.heads) for tokens in (query, key, value))
        read = join_heads(F.scaled_dot_product_attention(query, key, value))
        memory = torch.lerp(memory, self.out(read, present), torch.sigmoid(gate))
        return memory, memory

    @classmethod
    def fold(cls, step: DDSStep, inputs_BTND: Tensor) -> tuple["FoldedDDSStep", Tensor]:
        """Return the folded form of a step, and of its inputs ``(B, T, N, 3 D)``."""
        query, present, gate = inputs_BTND.chunk(3, dim=-1)
        norm, bias = (
            step.layer.memory_norm,
            step.bias + F.linear(step.layer.memory_norm.bias, step.weight),
        )
        project = FoldedLinear(step.weight * norm.weight)
        out = FoldedLinear(step.layer.memory_attn.out_proj.weight)
        biases = bias + F.pad(gate, (2 * gate.shape[-1], 0))
        inputs = torch.cat((query, out.bias(present), project.bias(biases)), dim=-1)
        return cls(step.layer, step.weight, step.bias, project, out), inputs


class DDSLayer(MemorylessLayer):
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
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, chunk: Chunk, state: Any
    ) -> tuple[Tensor, Any]:
        """Embeddings ``(B, T, N, D)`` -> outputs ``(B, T, N, D)`` and the last memory."""
        present = self.encode_present(embeddings_BTND, query_position_ND, chunk)
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
            if chunk.order is None and not torch.compiler.is_compiling():
                recurrence, inputs = FoldedDDSStep.fold(recurrence, inputs)
            memory, state = walk(recurrence, inputs, chunk.start_BT, state, chunk.order or "slots")
            return present + self.readout(memory), state
