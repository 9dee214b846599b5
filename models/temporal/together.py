"""Temporal parts of equal sizes that walk the segments of a batch together.

B blocks, T slots, N queries, D width, L layers, G parts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from models.temporal.layers import TemporalStack
from models.temporal.recurrence import Order, by_segments
from models.temporal.timeline import Timeline


def through_time_together(
    stacks: Sequence[TemporalStack],
    embeddings_G: Iterable[Tensor],
    position_G: Sequence[Tensor],
    timelines: Sequence[Order],
    computed_BT: Tensor | None = None,
    state_G: Sequence[Any] | None = None,
) -> tuple[list[Tensor], list[list[Tensor]]]:
    """Return the outputs ``(L, B, T, N, D)`` of each part and its states after the last slot.

    There is one walk per layer, not one per part; what each part does before its first walk comes
    as soon as its embeddings do. States and outputs are those of `models.temporal.in_chunks`.

    Args:
        stacks: of parts in `models.temporal.WALKED`.
        embeddings_G: ``(B, T, N, D)`` of each part.
        position_G: of the queries of each part, ``(N, D)``.
        timelines: of the chunks of slots between which no gradient passes, see `timelines_of`.
        computed_BT: as in `TemporalStack`.
        state_G: what an earlier call returned, to go on from.
    """
    layers = []
    for index, layer_G in enumerate(zip(*(stack.layers for stack in stacks), strict=True)):
        arguments = zip(layer_G, embeddings_G, position_G, strict=True)
        begun_G = [layer.begin(*both, computed_BT) for layer, *both in arguments]
        before_G = [state and state[index] for state in state_G or [None] * len(stacks)]
        layers.append(by_segments(begun_G, timelines, before_G))
        embeddings_G = layers[-1][0]
    outputs, states = zip(*layers, strict=True)
    parts = zip(stacks, zip(*outputs, strict=True), strict=True)
    return (
        [stack.norm(torch.stack(outputs_L)) for stack, outputs_L in parts],
        [list(each) for each in zip(*states, strict=True)],
    )


def timelines_of(start_BT: Tensor, slots: int | None, parts: int) -> Sequence[Order]:
    """Of so many parts, for chunks of `slots`, or all; starts on a device are waited for, once."""
    chunks = start_BT.cpu().split(slots or start_BT.shape[1], dim=1)
    if torch.compiler.is_compiling():
        return chunks  # the timelines are made within `models.temporal.compiled`
    return [Timeline.of(chunk, parts).to(start_BT.device) for chunk in chunks]
