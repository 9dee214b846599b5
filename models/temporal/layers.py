"""Stacks of temporal layers, and two base layers: without a memory, and with any.

B blocks, T slots, N queries, D width, L layers.
"""

from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from bload.batch.walk_order import WalkOrder
from models.transformer import EncoderLayer, LayerSizes, Sublayer

LONGEST_MEMORY = 94
"""Frames that the slowest channels remember before training: a full block."""


class TemporalStack(nn.Module):
    """Layers that each remember their own past, and one norm for the outputs of all of them.

    A layer is called ``layer(embeddings_BTND, query_position_ND, start_BT, state, order)``, `order`
    as in `bload.walk`, and returns its outputs ``(B, T, N, D)`` and its state after the last slot.
    Each layer does all slots before the next one begins. `sizes` are as in `models.dds.DDS`.
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
        order: WalkOrder | str = "segments",
    ) -> tuple[Tensor, list[Any]]:
        """Return the outputs of all layers ``(L, B, T, N, D)`` and the state of each, detached.

        Args:
            state: what an earlier call returned, to continue inside a video; None starts anew.
        """
        outputs_L, states = [], []
        for layer, old in zip(self.layers, state or [None] * len(self.layers), strict=True):
            embeddings_BTND, new = layer(embeddings_BTND, query_position_ND, start_BT, old, order)
            outputs_L.append(embeddings_BTND)
            states.append(new)
        return self.norm(torch.stack(outputs_L)), tree_map_only(Tensor, Tensor.detach, states)


def no_autocast(device: torch.device) -> torch.autocast:
    """Turn autocast off within: roundings of bf16 would add up over the slots."""
    return torch.autocast(device.type, enabled=False)


class FrameLayer(nn.Module):
    """Work on single frames: the baseline ``none``, and what layers with a memory begin with.

    Self-attention among a frame's queries, then feed-forward, on all slots at once.
    """

    def __init__(self, **sizes: Unpack[LayerSizes]) -> None:
        super().__init__()
        self.frame = EncoderLayer(**sizes)

    def encode_present(self, embeddings_BTND: Tensor, query_position_ND: Tensor) -> Tensor:
        """Compute embeddings of the present frames by themselves, ``(B, T, N, D)``."""
        frames_IND = self.frame(embeddings_BTND.flatten(0, 1), query_position_ND)
        return frames_IND.view_as(embeddings_BTND)

    def forward(
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, *walk_args: Any
    ) -> tuple[Tensor, Any]:
        """Return outputs ``(B, T, N, D)`` and the state after the last slot (here None)."""
        return self.encode_present(embeddings_BTND, query_position_ND), None


class MemoryLayer(FrameLayer):
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
        self, embeddings_BTND: Tensor, query_position_ND: Tensor, *walk_args: Any
    ) -> tuple[Tensor, Any]:
        present_BTND = self.encode_present(embeddings_BTND, query_position_ND)
        read_BTND = self.sublayer.prepare(present_BTND)
        remembered_BTND, state = self.memory(read_BTND, *walk_args)
        return self.sublayer.add_update(present_BTND, self.out_proj(remembered_BTND)), state


def gate_bias(width: int) -> Tensor:
    """Return biases ``(D,)`` of update gates, for memories from 1 to `LONGEST_MEMORY` frames.

    A channel with gate z forgets like (1 - z)^t, in 1 / z frames. These times are spread evenly on
    a logarithmic scale (chrono initialisation, arXiv 1804.11188). The shortest is 1.2 frames, since
    a gate of 1 could not learn.
    """
    memories_D = torch.logspace(0, 1, width, base=LONGEST_MEMORY) + 0.2
    return -torch.log(memories_D - 1)
