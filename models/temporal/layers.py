"""Stacks of temporal layers, and two base layers: without a memory, and with any.

B blocks, T slots, N queries, D width, L layers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from bload.batch.walk_order import WalkOrder
from models.slots import ComputedSlots
from models.transformer import EncoderLayer, LayerSizes, Sublayer

LONGEST_MEMORY = 94
"""Frames that the slowest channels remember before training: a full block."""


class TemporalStack(nn.Module):
    """Layers that each remember their own past, and one norm for the outputs of all of them.

    A layer is called as ``layer(embeddings_BTND, query_position_ND, start_BT, state, slots,
    order)`` and returns its outputs ``(B, T, N, D)`` and its state after the last slot. Each layer
    does all slots before the next one begins. `slots` are those that need outputs, None for all;
    outputs in other slots are ignored. `order` is the `bload.walk` order of `start_BT`. `sizes` are
    as in `models.dds.DDS`.
    """

    def __init__(
        self, layer: Callable[..., nn.Module], layers: int, **sizes: Unpack[LayerSizes]
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(**sizes) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes["width"])

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: list[Any] | None = None,
        slots: ComputedSlots | None = None,
        order: WalkOrder | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Return the outputs of all layers ``(L, B, T, N, D)`` and the state of each.

        `state` is what an earlier call returned, to continue inside a video; None starts anew.
        """
        order = order or WalkOrder.of(start_BT)
        outputs_L, states = [], []
        for index, layer in enumerate(self.layers):
            layer_state = None if state is None else state[index]
            embeddings_BTND, new_state = layer(
                embeddings_BTND, query_position_ND, start_BT, layer_state, slots, order
            )
            outputs_L.append(embeddings_BTND)
            states.append(new_state)
        return self.norm(torch.stack(outputs_L)), states


def run_in_chunks(
    part: Callable[..., tuple[Tensor, Any]],
    embeddings_BTND: Tensor,
    query_position_ND: Tensor,
    start_BT: Tensor,
    orders: Sequence[WalkOrder],
    slots: ComputedSlots,
    state: Any = None,
) -> tuple[Tensor, Any]:
    """Run a temporal part a chunk of slots at a time; return its outputs ``(L, B, T, N, D)``.

    The values are those of the whole block: the state passes from chunk to chunk, its gradient does
    not (truncated back-propagation through time). Also return the state after the last slot,
    without gradient; `state` is that of the slots before. `orders` are those of `walk_orders`.
    """
    outputs, first = [], 0
    for order in orders:
        chunk = slice(first, first + order.slots)
        output, state = part(
            embeddings_BTND[:, chunk],
            query_position_ND,
            start_BT[:, chunk],
            state,
            slots.chunk(first, order.slots),
            order,
        )
        state = tree_map_only(Tensor, Tensor.detach, state)
        outputs.append(output)
        first += order.slots
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2), state


def walk_orders(start_BT: Tensor, slots: int | None) -> list[WalkOrder]:
    """Return the orders, on the host, of chunks of so many slots or of all slots at once.

    Gradients stay within a chunk. Starts that are on a device synchronise with it once.
    """
    return [WalkOrder.of(chunk) for chunk in start_BT.cpu().split(slots or start_BT.shape[1], 1)]


def no_autocast(device: torch.device) -> torch.autocast:
    """Turn autocast off within: roundings of bf16 would add up over the slots."""
    return torch.autocast(device.type, enabled=False)


class MemorylessLayer(nn.Module):
    """Work on single frames without a memory: the baseline ``none``, and the base of others.

    Self-attention among a frame's queries, then feed-forward, on all slots at once.
    """

    def __init__(self, **sizes: Unpack[LayerSizes]) -> None:
        super().__init__()
        self.frame = EncoderLayer(**sizes)

    def encode_present(
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, slots: ComputedSlots | None = None
    ) -> Tensor:
        """Compute embeddings of the present frames by themselves, ``(B, T, N, D)``."""
        slots = slots or ComputedSlots((embeddings_BTND.shape[0], embeddings_BTND.shape[1]))
        frames_IND = self.frame(slots.gather(embeddings_BTND), query_position_ND)
        return slots.scatter(frames_IND[None])[0]

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: Any,
        slots: ComputedSlots | None = None,
        order: WalkOrder | None = None,
    ) -> tuple[Tensor, Any]:
        """Return outputs ``(B, T, N, D)`` and the state after the last slot (here None)."""
        return self.encode_present(embeddings_BTND, query_position_ND, slots), None


class MemoryLayer(MemorylessLayer):
    """Work on the present frames, then a memory along time for each query by itself.

    The memory is called as ``memory(read_BTND, start_BT, state, order)`` and returns what each slot
    remembers, itself included, ``(B, T, N, D)``, and the state after the last slot.
    """

    def __init__(
        self, memory: Callable[[int, int], nn.Module], **sizes: Unpack[LayerSizes]
    ) -> None:
        super().__init__(**sizes)
        width = sizes["width"]
        self.sublayer = Sublayer(width, sizes["dropout"], sizes["norm_first"])
        self.memory = memory(width, sizes["heads"])
        self.out_proj = nn.Linear(width, width)

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: Any,
        slots: ComputedSlots | None = None,
        order: WalkOrder | None = None,
    ) -> tuple[Tensor, Any]:
        present_BTND = self.encode_present(embeddings_BTND, query_position_ND, slots)
        read_BTND = self.sublayer.prepare(present_BTND)
        remembered_BTND, state = self.memory(read_BTND, start_BT, state, order)
        return self.sublayer.add_update(present_BTND, self.out_proj(remembered_BTND)), state


def gate_bias(width: int) -> Tensor:
    """Return biases ``(D,)`` of update gates, for memories from 1 to `LONGEST_MEMORY` frames.

    A channel with gate z forgets like (1 - z)^t, in 1 / z frames. These times are spread evenly on
    a logarithmic scale (chrono initialisation, arXiv 1804.11188). The shortest is 1.2 frames, since
    a gate of 1 could not learn.
    """
    memories_D = torch.logspace(0, 1, width, base=LONGEST_MEMORY) + 0.2
    return -torch.log(memories_D - 1)
