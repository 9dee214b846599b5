"""Values from a source: a tensor, a dict of tensors, or a list of other objects, by frame."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bload.errors import InputError


class Kept:
    """Holds a target per sequence that stays as it is, even if it is a number or a tensor."""

    def __init__(self, value: Any) -> None:
        self.value = value


def check_dense(value: Tensor) -> Tensor:
    """Return a tensor; raise InputError unless it is a dense one on the CPU."""
    is_dense = value.layout == torch.strided and not (value.is_quantized or value.is_nested)
    if is_dense and value.is_cpu:
        return value.as_subclass(Tensor)  # a class of one's own may not be sent from a worker
    raise InputError("a sparse, nested, quantised or GPU tensor; give dense CPU tensors")


def map_values(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return the tree with `change` applied to every value that is not a dict.

    torch's `tree_map` takes ten times as long for one tensor.
    """
    if isinstance(tree, Mapping):
        return {key: map_values(part, change) for key, part in tree.items()}
    return change(tree)


def map_tensors(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the tree with `change` applied to every tensor, except for those in lists."""
    return map_values(tree, lambda value: change(value) if isinstance(value, Tensor) else value)


def copy_value(value: Any) -> Any:
    """Copy a tensor, array or list, which the next call of a source may fill anew.

    An array of numbers becomes a tensor; other objects are not copied.
    """
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise InputError("a tensor that requires a gradient; give it detached")
        return check_dense(value).clone()
    if np.ma.is_masked(value):
        raise InputError("a masked array, with missing values; fill them, or leave the frames out")
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        if value.dtype.itemsize > 8 and value.dtype != np.complex128:
            raise InputError(f"an array of {value.dtype}, unknown to torch; give float64")
        return torch.from_numpy(np.array(value, value.dtype.newbyteorder("="), order="C"))
    return copy(value) if isinstance(value, list | np.ndarray) else value


def copy_alike(tree: Any, template: Any, length: int) -> Any:
    """Return a copy of tensors of `length` frames that are like a template; None for all else.

    It does in 3 µs what the checks that can say what is wrong do in 10.
    """
    if isinstance(tree, Tensor) and isinstance(template, Tensor) and not tree.requires_grad:
        if tree.dtype == template.dtype and tree.shape == (length, *template.shape[1:]):
            return check_dense(tree).clone()
    elif isinstance(tree, dict) and isinstance(template, dict) and tree.keys() == template.keys():
        copies = {}
        for key, part in tree.items():
            copies[key] = copy_alike(part, template[key], length)
            if copies[key] is None:
                return None
        return copies
    return None


def as_column(value: Any) -> Any:
    """Return a number or tensor as a tensor ``(1, ...)``, any other object in a list."""
    if isinstance(value, Kept):
        return [value.value]
    if isinstance(value, int | float | np.number | np.bool_):
        value = torch.as_tensor(value, device="cpu")
    if isinstance(value, Tensor):
        return value[None]
    return [value]


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on `device`; a copy from the host to a GPU does not synchronise."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def describe(tree: Any) -> str:
    """Describe the keys, shapes of a frame and dtypes of a tree."""
    if isinstance(tree, dict):
        parts = [f"{key}: {describe(part)}" for key, part in sorted(tree.items())]
        return "{" + ", ".join(parts) + "}"
    if isinstance(tree, Tensor):
        return f"{str(tree.dtype).removeprefix('torch.')} {tuple(tree.shape[1:])}"
    return "nothing" if tree is None else "objects"


def compare_kinds(name: str, templates: tuple[Any, Any], others: tuple[Any, Any]) -> str:
    """Return how inputs and targets differ in kind from others; empty if they do not."""
    kinds = [f"inputs {describe(x)} and targets {describe(y)}" for x, y in (templates, others)]
    if kinds[0] == kinds[1]:
        return ""
    return f"{name} has {kinds[0]}, another has {kinds[1]}; give all of one kind"


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
