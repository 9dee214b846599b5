"""Values from a source: a tensor, a dict of tensors, or a list of other objects, by frame.

V frames along the first dimension.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from bload.errors import InputError

SMALL = 2**16
"""Bytes below which a tensor is sent to another process inside the message, as an array. A
larger one is sent as a place in shared memory, over a connection of its own."""


class Kept:
    """Holds a target per sequence that stays as it is, even if it is a number or a tensor."""

    def __init__(self, value: Any) -> None:
        self.value = value


def as_tensors(value: Any) -> Any:
    """Convert arrays of numbers to tensors, if possible without a copy; dicts by key."""
    if isinstance(value, Tensor):
        return value
    if np.ma.is_masked(value):
        raise InputError("a masked array has missing values; fill them, or leave the frames out")
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        copy = not value.flags.writeable or min(value.strides, default=0) < 0
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), "C", copy=copy))
    if isinstance(value, Mapping):
        return {key: as_tensors(part) for key, part in value.items()}
    return value


def is_by_frame(tree: Any, objects: bool) -> bool:
    """Return True for a tensor ``(V, ...)``, a dict of these or, if `objects`, a list or tuple."""
    if isinstance(tree, dict):
        parts = tree.values()
        return bool(tree) and not any(
            isinstance(part, dict) or not is_by_frame(part, objects) for part in parts
        )
    if isinstance(tree, Tensor):
        return tree.dim() > 0
    return objects and isinstance(tree, list | tuple)


def column_of(value: Any) -> Any:
    """Return a number or tensor as a tensor ``(1, ...)``, any other object in a list; by key."""
    if isinstance(value, Mapping):
        return {key: column_of(part) for key, part in value.items()}
    if isinstance(value, Kept):
        return [value.value]
    if isinstance(value, int | float | np.number | np.bool_):
        value = torch.as_tensor(value, device="cpu")
    return (
        value[None]
        if isinstance(value, Tensor)
        else [copy(value) if isinstance(value, list) else value]
    )


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on `device`; a copy from the host to a GPU does not wait."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def on_tensors(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the tree with `change` applied to every tensor."""
    if isinstance(tree, dict):
        return {key: on_tensors(part, change) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(on_tensors(part, change) for part in tree)
    return change(tree) if isinstance(tree, Tensor) else tree


def parts_of(tree: Any) -> list[Any]:
    """Return the values of a dict, or anything else in a list."""
    return [*tree.values()] if isinstance(tree, dict) else [tree]


def counts(tree: Any) -> set[int]:
    """Return the numbers of frames of the parts of a tree: one number if they agree."""
    return {len(part) for part in parts_of(tree)}


def share_memory(trees: Sequence[Any]) -> bool:
    """Return True if tensors of two trees overlap in memory, key by key."""
    keys = [*trees[0]] if trees and isinstance(trees[0], dict) else []
    columns: list[Sequence[Any]] = [[tree[key] for tree in trees] for key in keys]
    for parts in columns or [trees]:
        if not parts or not isinstance(parts[0], Tensor):
            continue
        begin = np.array([*map(Tensor.data_ptr, parts)])
        extent = attrgetter("nbytes") if all(map(Tensor.is_contiguous, parts)) else _extent
        end = begin + np.array([*map(extent, parts)])
        order = begin.argsort()
        if np.any(end[order[:-1]] > begin[order[1:]]):
            return True
    return False


def _extent(tensor: Tensor) -> int:
    """Return the bytes from the first of a tensor to its last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return (1 + sum((n - 1) * step for n, step in steps)) * tensor.itemsize


Usual = tuple[torch.dtype, tuple[int, ...]] | None
"""Dtype and shape of a frame, of values that are one tensor."""


def usual(nothing: Any) -> Usual:
    """Return what `is_usual` looks for, None unless the values are one tensor."""
    return (nothing.dtype, tuple(nothing.shape[1:])) if isinstance(nothing, Tensor) else None


def is_usual(tree: Any, usual: Usual, length: int) -> bool:
    """Return True for a tensor of `length` frames of the usual kind; the test is fast."""
    return (
        isinstance(tree, Tensor)
        and usual is not None
        and tree.dtype is usual[0]
        and tree.shape == (length, *usual[1])
        and not tree.requires_grad
    )


def alike(one: Any, other: Any) -> bool:
    """Return True for trees of one kind; the test is fast for tensors."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and one.shape[1:] == other.shape[1:]
    return kind(one) == kind(other)


def kind(tree: Any) -> str:
    """Describe keys, shapes and dtypes, without the number of frames."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {kind(part)}" for key, part in sorted(tree.items())) + "}"
    if isinstance(tree, Tensor):
        return f"{tuple(tree.shape[1:])} {str(tree.dtype).removeprefix('torch.')}"
    return "nothing" if tree is None else "objects"


def described(tree: Any) -> str:
    """Describe dtypes and whole shapes by key, or the number of objects; nothing as ""."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {described(part)}" for key, part in tree.items()) + "}"
    if isinstance(tree, Tensor):
        return f"{str(tree.dtype).removeprefix('torch.')} {tuple(tree.shape)}"
    return f"of {len(tree)} objects" if tree else ""


def join(trees: Sequence[Any]) -> Any:
    """Concatenate trees of one kind along the frames."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: join([tree[key] for tree in trees]) for key in first}
    if isinstance(first, Tensor):
        return torch.cat(list(trees))
    return None if first is None else [value for tree in trees for value in tree]


def none_of(tree: Any) -> Any:
    """Return a tree of the same kind without frames."""
    if isinstance(tree, dict):
        return {key: none_of(part) for key, part in tree.items()}
    if isinstance(tree, Tensor):
        return tree[:0].clone()
    return None if tree is None else []


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums of counts: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor; in a worker, it is in shared memory and not copied."""
    size = math.prod(shape) * dtype.itemsize
    if get_worker_info() is None or not size:
        return torch.empty(shape, dtype=dtype, device="cpu")
    shared: Any = torch.UntypedStorage  # untyped in torch, whose own collate function uses it too
    storage: torch.UntypedStorage = shared._new_shared(size)
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage).view(shape)


def get_state(instance: Any) -> list[Any]:
    """Return the field values of a dataclass, in order, for pickling."""
    return [_inside(getattr(instance, field.name)) for field in fields(instance)]


def set_state(instance: Any, state: list[Any]) -> None:
    """Set the fields of a new instance, frozen or not, to the values from `get_state`."""
    for field, value in zip(fields(instance), state, strict=True):
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        object.__setattr__(instance, field.name, value)


def _inside(value: Any) -> Any:
    plain = isinstance(value, Tensor) and value.device.type == "cpu" and value.nbytes < SMALL
    return value.numpy() if plain and value.dtype in (torch.bool, torch.int64) else value
