"""Temporal parts: how the embeddings of earlier frames reach the present one.

A part is one class of layers, which `models.temporal.layers.TemporalStack` calls, and one entry in
`TEMPORAL_PARTS`, which ``model.temporal`` names; tests cover all entries.

| name | what a query sees of the past | T slots take |
| --- | --- | --- |
| dds | the embeddings of all queries one frame before, mixed in by a gate | a walk |
| gru | its own state, by a gated recurrent unit | a walk |
| scan | its own state, by gates that see the present frame alone | 2 log2(T) steps |
| none | nothing: the baseline | one |

A walk (`bload.walk`) takes segments side by side, in as many steps as the longest has slots.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any


def _layer(module: str, name: str, **sizes: Any) -> Any:
    return getattr(import_module(f"models.temporal.{module}"), name)(**sizes)


def _memory_layer(module: str, name: str, **sizes: Any) -> Any:
    memory = getattr(import_module(f"models.temporal.{module}"), name)
    return _layer("layers", "MemoryLayer", memory=memory, **sizes)


TEMPORAL_PARTS: dict[str, Callable[..., Any]] = {
    "dds": partial(_layer, "dds", "DDSLayer"),
    "gru": partial(_memory_layer, "gru", "GRUMemory"),
    "scan": partial(_memory_layer, "scan", "ScanMemory"),
    "none": partial(_layer, "layers", "FrameLayer"),
}
"""Name -> builder of a layer, from width, heads, feedforward, dropout and norm_first. Modules are
strings, imported when a layer is built, so that configs can be checked without torch."""
