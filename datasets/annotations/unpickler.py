"""Annotation pickles, which come from the internet: plain values and numpy arrays, no code.

A pickle may call any importable function. Here `find_class` knows the few names that numpy arrays
and scalars are made of, and refuses all others before they are imported. Numpy's own dtype is not
one of them, since a pickle can set its flags so that the bytes of an array count as pointers to
objects. `_Dtype` takes its place. A hostile file runs no code; it can still exhaust memory.
"""

import gc
import pickle
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from datasets.annotations.problems import short_repr
from datasets.files import reading

_KINDS = "biufSU"  # booleans, numbers, texts: no objects, fields or dates


class _Dtype:
    """The dtype ``numpy.dtype(code)`` of a pickle; its state gives only the byte order."""

    __slots__ = ("checked",)

    def __init__(self, code: str, *_: object) -> None:
        self.checked = np.dtype(code)
        if self.checked.kind not in _KINDS:
            raise UnpicklingError(f"it has values of dtype {short_repr(code)}")

    def __setstate__(self, state: tuple) -> None:
        """Take numpy's ``(version, byte order, ...)``."""
        self.checked = self.checked.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array that takes its contents from a pickle, only under a `_Dtype`; until then empty."""

    __slots__ = ()

    def __new__(cls, *_: object) -> "_Array":
        return super().__new__(cls, 0)

    def __setstate__(self, state: tuple) -> None:
        """Take numpy's ``(version, shape, dtype, Fortran order, bytes)``."""
        version, shape, dtype, fortran, data = state
        super().__setstate__((version, shape, dtype.checked, fortran, data))


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): str.encode,  # bytes under protocols 0 to 2: a text in latin-1
    ("__builtin__", "bytes"): bytes,  # empty bytes under protocols 0 to 2
}
for _core in ("numpy.core", "numpy._core"):  # as numpy 1 and numpy 2 call it
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _Array
    _ALLOWED[f"{_core}.multiarray", "scalar"] = lambda t, data: np.frombuffer(data, t.checked, 1)[0]
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = lambda data, dtype, shape, order: np.frombuffer(
        data, dtype.checked
    ).reshape(shape, order=order)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnpicklingError(f"it asks for {short_repr(f'{module}.{name}')}: do not trust it")
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """Return the plain value in the pickle at `path`: dict, list, tuple, str, number, numpy array.

    Raises `InputError`, naming the file, if it is missing, empty, cut off, or asks for anything
    but plain values.
    """
    gc.disable()  # it would look at millions of new values in vain
    try:
        with reading(path, "download it again from Action Genome"), path.open("rb") as file:
            return _PlainUnpickler(file).load()
    finally:
        gc.enable()
