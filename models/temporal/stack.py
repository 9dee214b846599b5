"""Temporal layers one on the other.

B blocks, T slots, N queries, D width, L layers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only


class TemporalStack(nn.Module):
    """Layers that each remember their own past, and one norm for the outputs of all of them.

    A layer is called as ``layer(embeddings_BTND, query_position_ND, start_BT, state)`` and returns
    its outputs ``(B, T, N, D)`` and its state after the last slot. Each layer does all slots before
    the next one begins.

    Args:
        layer: builds a layer from width and `sizes`.
        layers: L.
        width: D.
        sizes: heads, feedforward, dropout and norm_first, as in `models.dds.DDS`.
    """

    def __init__(
        self,
        layer: Callable[..., nn.Module],
        layers: int,
        width: int,
        **sizes: int | float | bool,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(width=width, **sizes) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        embeddings_BTND: Tensor,
        query_position_ND: Tensor,
        start_BT: Tensor,
        state: list[Any] | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Returns the outputs of all layers ``(L, B, T, N, D)`` and a state a layer.

        Args:
            embeddings_BTND: the embeddings of the frames, each seen alone.
            query_position_ND: what tells the queries apart.
            start_BT: bool, True on the first frame of each video.
            state: what an earlier call returned, to go on in mid-video; None begins anew.
        """
        outputs_L, states = [], []
        for index, layer in enumerate(self.layers):
            before = None if state is None else state[index]
            embeddings_BTND, after = layer(embeddings_BTND, query_position_ND, start_BT, before)
            outputs_L.append(embeddings_BTND)
            states.append(after)
        return self.norm(torch.stack(outputs_L)), states


def in_chunks(
    part: nn.Module,
    embeddings_BTND: Tensor,
    query_position_ND: Tensor,
    start_BT: Tensor,
    slots: int | None,
) -> Tensor:
    """Outputs ``(L, B, T, N, D)`` of a temporal part whose gradients go back `slots` slots at most.

    The values are those of the whole block: the state passes from chunk to chunk, its gradient does
    not (truncated back-propagation through time). None or 0: one chunk.
    """
    if not slots:
        return part(embeddings_BTND, query_position_ND, start_BT)[0]
    outputs, state = [], None
    for embeddings, start in zip(
        embeddings_BTND.split(slots, dim=1), start_BT.split(slots, dim=1), strict=True
    ):
        output, state = part(embeddings, query_position_ND, start, state)
        state = tree_map_only(Tensor, Tensor.detach, state)
        outputs.append(output)
    return torch.cat(outputs, dim=2)
