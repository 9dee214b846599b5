"""Sending from a worker to the main process: frames in shared memory, all else pickled at once."""

import math
import pickle
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from bload.errors import InputError


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: torch's own pickling opens a file, or takes 0.3 ms, for each."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor:
            with suppress(TypeError, RuntimeError):  # not on the CPU, bfloat16, or with a gradient
                return torch.from_numpy, (value.numpy(),)
        return NotImplemented


def pickle_inline(value: Any) -> bytes:
    buffer = BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Objects(tuple[Any, ...]):
    """Objects in a worker, also pickled; they arrive in the main process as a plain tuple."""

    pickled: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.pickled,)


def collect_objects(pieces: Sequence[Sequence[Any]], sequence_S: np.ndarray) -> tuple[Any, ...]:
    """Return the objects of all segments; a worker pickles them here, where an error is raised.

    The thread that sends a batch would only print it, and the main process would wait for ever.
    """
    plain = tuple(chain.from_iterable(pieces))
    if get_worker_info() is None:
        return plain
    objects = _Objects(plain)
    try:
        objects.pickled = pickle_inline(plain)
    except Exception as error:
        for s in range(len(pieces) if len(pieces) > 1 else 0):  # which one is it?
            collect_objects(pieces[s : s + 1], sequence_S[s : s + 1])
        raise InputError(
            f"targets of sequence {sequence_S[0]} cannot be sent from a worker: {error}; give "
            "plain values, or num_workers=0"
        ) from error
    return objects


def check_sendable(error: Exception) -> None:
    """Raise a RuntimeError for an error whose class a worker cannot pickle: torch loses it."""
    try:
        if get_worker_info() is not None:
            pickle.dumps(type(error))
    except Exception:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def empty_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor; in a worker, it is in shared memory and not copied."""
    size = math.prod(shape) * dtype.itemsize
    if get_worker_info() is None or not size:
        return torch.empty(shape, dtype=dtype, device="cpu")
    shared: Any = torch.UntypedStorage  # untyped in torch, whose own collate function uses it too
    storage: torch.UntypedStorage = shared._new_shared(size)
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage).view(shape)
