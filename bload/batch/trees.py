"""Values that a source returns: a tensor, a dict of tensors, or a list of other objects, by frame.

V frames along the first dimension.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

SMALL = 2**16
"""Bytes below which a tensor is sent to another process inside the message, as an array; a larger
one is sent as a place in shared memory, which takes a connection of its own."""


def as_tensors(value: Any) -> Any:
    """Return arrays of numbers as tensors, if possible without a copy; dicts by key."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        copy = not value.flags.writeable or min(value.strides, default=0) < 0
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), "C", copy=copy))
    if isinstance(value, Mapping):
        return {key: as_tensors(part) for key, part in value.items()}
    return value


def is_by_frame(tree: Any, objects: bool) -> bool:
    """Return True for a tensor ``(V, ...)`` or a dict of them, or a sequence of `objects`."""
    if isinstance(tree, dict):
        return bool(tree) and all(isinstance(v, Tensor) and v.dim() for v in tree.values())
    return (
        tree.dim() > 0 if isinstance(tree, Tensor) else objects and isinstance(tree, list | tuple)
    )


def column_of(value: Any) -> Any:
    """Return a tensor ``(1, ...)`` of a number or tensor, a list with any other object; by key."""
    if isinstance(value, Mapping):
        return {key: column_of(part) for key, part in value.items()}
    if isinstance(value, int | float | np.number | np.bool_ | Tensor):
        return torch.as_tensor(value)[None]
    return [value]


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on `device`; the copy from the host to a GPU waits for nothing."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def on_tensors(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the tree with every tensor changed."""
    if isinstance(tree, dict):
        return {key: on_tensors(part, change) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(on_tensors(part, change) for part in tree)
    return change(tree) if isinstance(tree, Tensor) else tree


def counts(tree: Any) -> set[int]:
    """Return how many frames the parts of a tree have; one number where they agree."""
    return {len(part) for part in (tree.values() if isinstance(tree, dict) else [tree])}


def alike(one: Any, other: Any) -> bool:
    """Return True for trees of one kind; for tensors without the cost of a description."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and one.shape[1:] == other.shape[1:]
    return kind(one) == kind(other)


def kind(tree: Any) -> str:
    """Describe all but the number of frames: keys, shapes and dtypes."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {kind(part)}" for key, part in sorted(tree.items())) + "}"
    if isinstance(tree, Tensor):
        return f"{tuple(tree.shape[1:])} {str(tree.dtype).removeprefix('torch.')}"
    return "nothing" if tree is None else "objects"


def described(tree: Any) -> str:
    """Describe dtypes and whole shapes, by key; objects by their number, and none by nothing."""
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
    """Return a tree of the same kind without any frame."""
    if isinstance(tree, dict):
        return {key: none_of(part) for key, part in tree.items()}
    if isinstance(tree, Tensor):
        return tree[:0].clone()
    return None if tree is None else []


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an empty tensor; in a worker it lies where the main process finds it, uncopied."""
    size = math.prod(shape) * dtype.itemsize
    if get_worker_info() is None or not size:
        return torch.empty(shape, dtype=dtype)
    shared: Any = torch.UntypedStorage  # untyped in torch; its own collate function does the same
    storage: torch.UntypedStorage = shared._new_shared(size)
    return torch.empty(0, dtype=dtype).set_(storage).view(shape)


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
