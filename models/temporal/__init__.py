"""The temporal part: how the embeddings of the frames before reach the present one.

Every temporal part is called as ``part(embeddings_BTND, query_position_ND, start_BT, state,
computed_BT)`` and returns the embeddings after each of its layers, ``(L, B, T, N, D)``, and the
state after the last slot. A new part is one class of layers, which
`models.temporal.layers.TemporalStack` calls, and one entry in `PARTS`, which ``model.temporal``
names; the tests go over all entries.

| name | what a query finds of the past | T slots take |
| --- | --- | --- |
| dds | the embeddings of all queries one frame before, mixed in by a gate | T steps, or fewer |
| gru | its own state, by a gated recurrent unit | T steps, or fewer |
| attention | its own frames of the video so far | a step per 128 slots |
| scan | its own state, by gates that see the present frame alone | 2 log2(T) steps |
| none | nothing: the baseline | one |

Those that take fewer walk segments side by side, in as many steps as the longest has slots.
"""

from collections.abc import Callable
from functools import partial
from typing import Unpack

from torch import nn

from bload.errors import check_choice
from models.temporal.attention import AttentionMemory
from models.temporal.dds import TemporalLayer
from models.temporal.gru import GRUMemory
from models.temporal.layers import (
    MemoryLayer,
    MemorylessLayer,
    Remember,
    TemporalStack,
    in_chunks,
)
from models.temporal.scan import ScanMemory
from models.temporal.together import through_time_together, timelines_of
from models.transformer import LayerSizes

__all__ = [
    "PARTS",
    "WALKED",
    "Remember",
    "build_temporal",
    "in_chunks",
    "through_time_together",
    "timelines_of",
]

PARTS: dict[str, Callable[..., nn.Module]] = {
    "dds": TemporalLayer,
    "gru": partial(MemoryLayer, GRUMemory),
    "attention": partial(MemoryLayer, AttentionMemory),
    "scan": partial(MemoryLayer, ScanMemory),
    "none": MemorylessLayer,
}
"""Name -> builder of a layer, from width, heads, feedforward, dropout and norm_first."""

WALKED = ("dds", "gru")
"""The parts that can walk segments side by side, by `through_time_together`."""


def build_temporal(name: str, layers: int, **sizes: Unpack[LayerSizes]) -> TemporalStack:
    """Build a temporal part by name; raises `InputError` if none has it."""
    check_choice("model.temporal", name, PARTS)
    return TemporalStack(PARTS[name], layers, **sizes)
