"""Values from a source: a tensor, a dict of tensors, or a list of other objects, by frame.

F frames along the first dimension.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from bload.errors import InputError

INLINE_BYTES = 2**16
"""Bytes below which a tensor is sent to another process inside the message, as an array. A
larger one is sent as a place in shared memory, over a connection of its own."""


class Kept:
    """Holds a target per sequence that stays as it is, even if it is a number or a tensor."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(slots=True, eq=False)
class CompactPickle:
    """Base class of dataclasses whose small tensors are pickled as arrays."""

    def __getstate__(self) -> list[Any]:
        return [_as_array(getattr(self, field.name)) for field in fields(self)]

    def __setstate__(self, state: list[Any]) -> None:
        for field, value in zip(fields(self), state, strict=True):
            is_array = isinstance(value, np.ndarray)
            setattr(self, field.name, torch.from_numpy(value) if is_array else value)


def _as_array(value: Any) -> Any:
    plain = isinstance(value, Tensor) and value.device.type == "cpu" and value.nbytes < INLINE_BYTES
    return value.numpy() if plain and value.dtype in (torch.bool, torch.int64) else value


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


def as_column(value: Any) -> Any:
    """Return a number or tensor as a tensor ``(1, ...)``, any other object in a list; by key."""
    if isinstance(value, Mapping):
        return {key: as_column(part) for key, part in value.items()}
    if isinstance(value, Kept):
        return [value.value]
    if isinstance(value, int | float | np.number | np.bool_):
        value = torch.as_tensor(value, device="cpu")
    if isinstance(value, Tensor):
        return value[None]
    return [copy(value) if isinstance(value, list | np.ndarray) else value]


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on `device`; a copy from the host to a GPU does not synchronise."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def map_tensors(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the tree with `change` applied to every tensor, except for those in lists and tuples.

    torch's `tree_map` takes ten times as long for one tensor.
    """
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(part, change) for key, part in tree.items()}
    return tree


def frame_counts(tree: Any) -> set[int]:
    """Return the numbers of frames of the parts of a tree: one number if they agree."""
    return {len(part) for part in (tree.values() if isinstance(tree, dict) else [tree])}


def is_like(tree: Any, like: Any, length: int) -> bool:
    """Return True for `length` frames of the shape and dtype of those of `like`, key by key.

    It is fast; `describe` tells the difference.
    """
    if isinstance(like, dict):
        is_dict = isinstance(tree, dict) and tree.keys() == like.keys()
        return is_dict and all(is_like(tree[key], part, length) for key, part in like.items())
    if not isinstance(like, Tensor):
        return like is tree is None
    is_equal = isinstance(tree, Tensor) and tree.dtype == like.dtype
    return is_equal and tree.shape == (length, *like.shape[1:]) and not tree.requires_grad


def copy_values(tree: Any) -> Any:
    """Return a copy of tensors and lists, which the next call may fill anew; not of objects."""
    if isinstance(tree, dict):
        return {key: copy_values(part) for key, part in tree.items()}
    if isinstance(tree, Tensor):
        return tree.clone()
    return [*tree] if isinstance(tree, list) else tree


def describe(tree: Any, whole: bool = False) -> str:
    """Describe keys, shapes and dtypes; `whole` adds the number of frames or objects."""
    if isinstance(tree, dict):
        parts = [f"{key}: {describe(part, whole)}" for key, part in sorted(tree.items())]
        return "{" + ", ".join(parts) + "}"
    if isinstance(tree, Tensor):
        shape = tuple(tree.shape if whole else tree.shape[1:])
        return f"{str(tree.dtype).removeprefix('torch.')} {shape}"
    return "nothing" if tree is None else f"{len(tree)} objects" if whole else "objects"


def compare_kinds(name: str, likes: tuple[Any, Any], others: tuple[Any, Any]) -> str:
    """Return how inputs and targets differ in kind from others; empty if they do not."""
    kinds = [f"inputs {describe(x)} and targets {describe(y)}" for x, y in (likes, others)]
    if kinds[0] == kinds[1]:
        return ""
    return f"{name} has {kinds[0]}, another has {kinds[1]}; give all of one kind"


def concatenate(trees: Sequence[Any]) -> Any:
    """Concatenate trees of one kind along the frames; objects become a tuple."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: concatenate([tree[key] for tree in trees]) for key in first}
    if isinstance(first, Tensor):
        return torch.cat(list(trees))
    return None if first is None else tuple(value for tree in trees for value in tree)


def empty_like(tree: Any) -> Any:
    """Return a tree of the same kind without frames."""
    if isinstance(tree, dict):
        return {key: empty_like(part) for key, part in tree.items()}
    if isinstance(tree, Tensor):
        return tree[:0].clone()
    return None if tree is None else []


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums of counts: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def empty_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor; in a worker, it is in shared memory and not copied."""
    size = math.prod(shape) * dtype.itemsize
    if get_worker_info() is None or not size:
        return torch.empty(shape, dtype=dtype, device="cpu")
    shared: Any = torch.UntypedStorage  # untyped in torch, whose own collate function uses it too
    storage: torch.UntypedStorage = shared._new_shared(size)
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage).view(shape)
