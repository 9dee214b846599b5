"""The temporal part: how the embeddings of the frames before reach the present one.

Every temporal part is called as ``part(embeddings_BTND, query_position_ND, start_BT, state)`` and
returns the embeddings after each of its layers, ``(L, B, T, N, D)``, and the state after the last
slot. A new part is one class of layers and one entry in `TEMPORAL`.
"""

from torch import nn

from bload.errors import InputError
from models.temporal.dds import TemporalLayer
from models.temporal.none import MemorylessLayer
from models.temporal.stack import TemporalStack

TEMPORAL: dict[str, type[nn.Module]] = {"dds": TemporalLayer, "none": MemorylessLayer}
"""The class of the layers of each temporal part."""


def build_temporal(name: str, **sizes: int | float | bool) -> TemporalStack:
    """Build a temporal part by name.

    Raises:
        InputError: no temporal part has that name.
    """
    if name not in TEMPORAL:
        raise InputError(
            f"no temporal part is called '{name}'; set model.temporal to one of "
            f"{', '.join(TEMPORAL)}"
        )
    return TemporalStack(TEMPORAL[name], **sizes)
