"""Dataclasses of tensors on their way to another process.

A tensor is sent as a place in shared memory, which takes a connection of its own. Small ones are
sent as arrays instead, inside the message.
"""

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

SMALL = 2**16
"""Bytes below which a tensor is sent inside the message."""


def get_state(instance: Any) -> list[Any]:
    """Return the values of a dataclass to pickle, in the order of its fields."""
    return [_inside(getattr(instance, field.name)) for field in fields(instance)]


def set_state(instance: Any, state: list[Any]) -> None:
    """Give a new instance, frozen or not, what `get_state` returned."""
    for field, value in zip(fields(instance), state, strict=True):
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        object.__setattr__(instance, field.name, value)


def _inside(value: Any) -> Any:
    plain = isinstance(value, Tensor) and value.device.type == "cpu" and value.nbytes < SMALL
    return value.numpy() if plain and value.dtype in (torch.bool, torch.int64) else value
