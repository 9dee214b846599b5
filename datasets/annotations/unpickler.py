"""Annotation pickles, which come from the internet: plain values and numpy arrays, no code.

A pickle may call any importable function. Here `find_class` knows the few names that numpy arrays
and scalars are made of, and refuses all others before they are imported. Numpy's own dtype is not
one of them, since a pickle can set its flags so that the bytes of an array count as pointers to
objects. `_Dtype` takes its place.

A hostile file runs no code; it can still exhaust memory, or nest so deeply that Python ends.
"""

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numpy as np

from bload import InputError
from datasets.annotations.problems import short_repr
from datasets.files import plain_file

_KINDS = "biufSU"  # booleans, numbers, texts: no objects, fields or dates


class _Dtype:
    """The dtype ``numpy.dtype(code)`` of a pickle; its state gives only the byte order."""

    __slots__ = ("checked",)

    def __init__(self, code: str, *_: object) -> None:
        self.checked = np.dtype(code)
        if self.checked.kind not in _KINDS:
            raise UnpicklingError(f"it has values of dtype {short_repr(code)}")

    def __setstate__(self, state: tuple) -> None:
        """Take numpy's ``(version, byte order, subtype, names, fields, size, ...)``."""
        if state[2:5] != (None, None, None):
            raise UnpicklingError(f"it has a dtype of state {short_repr(state)}")
        self.checked = self.checked.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array that takes its contents from a pickle, only under a `_Dtype`."""

    __slots__ = ()

    def __new__(cls, kind: type, *_: object) -> "_Array":
        if kind is not _Array:
            raise UnpicklingError(f"it reconstructs a {short_repr(kind)} instead of an array")
        return super().__new__(cls, 0)  # without a state it is empty, whatever shape it asks for

    def __setstate__(self, state: tuple) -> None:
        """Take numpy's ``(version, shape, dtype, Fortran order, bytes)``."""
        version, shape, dtype, fortran, data = state
        super().__setstate__((version, shape, dtype.checked, fortran, data))


class _Fixed(NamedTuple):
    """A function whose attributes no pickle can set."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def _scalar(dtype: _Dtype, data: bytes) -> np.generic:
    return np.frombuffer(data, dtype.checked, 1)[0]


def _frombuffer(data: bytes, dtype: _Dtype, shape: tuple, order: Any) -> np.ndarray:
    return np.frombuffer(data, dtype.checked).reshape(shape, order=order)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): str.encode,  # bytes under protocols 0 to 2: a text in latin-1
    ("__builtin__", "bytes"): bytes,  # empty bytes under protocols 0 to 2
}
for _core in ("numpy.core", "numpy._core"):  # as numpy 1 and numpy 2 call it
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _Array
    _ALLOWED[f"{_core}.multiarray", "scalar"] = _Fixed(_scalar)
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = _Fixed(_frombuffer)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnpicklingError(
                f"it asks for {short_repr(f'{module}.{name}')}, which annotations never need: "
                "do not trust it"
            )
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """Return the plain value in the pickle at `path`: dict, list, tuple, str, number, numpy array.

    Raises `InputError`, naming the file, if it is missing, empty, cut off, or asks for anything
    but plain values.
    """
    if not plain_file(path).exists():
        raise InputError(f"{path} is missing; put Action Genome's annotations there")
    collecting = gc.isenabled()
    gc.disable()  # it would look at millions of new values in vain
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except OSError:  # of this machine
        raise
    except Exception as error:  # a broken pickle raises nearly anything
        raise InputError(
            f"{path} ({path.stat().st_size:,} bytes) is not a whole pickle of plain values "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}); download it again "
            "from Action Genome, or make it again"
        ) from error
    finally:
        if collecting:
            gc.enable()
