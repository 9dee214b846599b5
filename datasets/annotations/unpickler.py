"""Reading pickles that came from the internet: plain containers and numpy arrays, nothing else.

A pickle may name any importable function and have it called. Here every name is refused before
anything is imported, but for the few that numpy's arrays, scalars and dtypes are made of, and those
names give constructors of our own: they check types, sizes and shapes before anything is
allocated. They are instances without attributes, so that a pickle cannot change them either.

What opcodes alone can ask for (a memo of 2**31 places, a text of 2**60 bytes) is stopped by
`memory_limited`: while a file is read the process may grow in proportion to the file and no more.

Two things are not stopped, and no code runs in either. Python hashes tuples by recursion, so a
dictionary key of tuples nested hundreds of thousands deep ends the process (it runs out of stack).
And a file made to waste time can: a key of 60 tuples in one another, each holding the next twice,
takes 2**60 steps to hash, and numbers of one hash take the square of their number. Ctrl-C may not
end that; killing the process does.
"""

import gc
import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from bload.errors import InputError
from datasets.annotations.memory_limit import memory_limited
from datasets.annotations.problems import shown

_KINDS = "biufSU"  # booleans, numbers, texts: no objects, no fields, no dates
_MOST_ITEM_BYTES = 4_096
_MOST_DIMENSIONS = 8
_BYTES_A_BYTE = 24  # memory for a byte of the file; honest files take 6 to 10
_SPARE = 256 * 2**20


class _NoKey:
    """What a pickle may neither use as a key nor put into a set, where `_plain` does not look."""

    __slots__ = ()
    __hash__ = None


class _Dtype(_NoKey):
    """A dtype in the making: what ``numpy.dtype(code)`` is in a pickle."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def __setstate__(self, state: tuple) -> None:
        """Numpy's ``(version, byte order, subtype, names, fields, size, alignment, flags)``."""
        order, plain = state[1], state[2:5] == (None, None, None)
        if order not in ("<", ">", "|", "=") or not plain:
            raise pickle.UnpicklingError(f"dtype of state {shown(state)}")
        if order != "|":
            self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray):
    """An array whose contents are checked before numpy gets them."""

    def __setstate__(self, state: tuple) -> None:
        """Numpy's ``(version, shape, dtype, Fortran order, bytes)``."""
        version, shape, dtype, fortran, data = state
        _check_contents(shape, dtype, data)
        super().__setstate__((version, shape, dtype.dtype, fortran, data))


def _check_contents(shape: Any, dtype: Any, data: Any) -> None:
    if type(dtype) is not _Dtype or type(data) not in (bytes, bytearray):
        raise pickle.UnpicklingError(f"array of {shown(dtype)} from {type(data).__name__}")
    if type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS:
        raise pickle.UnpicklingError(f"array of shape {shown(shape)}")
    for side in shape:
        if type(side) is not int or not 0 <= side < 2**31:
            raise pickle.UnpicklingError(f"array of shape {shown(shape)}")
    if math.prod(shape) * dtype.dtype.itemsize != len(data):
        raise pickle.UnpicklingError(f"array of shape {shown(shape)} from {len(data)} bytes")


class _MakeDtype(_NoKey):
    __slots__ = ()

    def __call__(self, code: str, *_: Any) -> _Dtype:
        if type(code) is not str or len(code) > 8:
            raise pickle.UnpicklingError(f"dtype {shown(code)}")
        dtype = np.dtype(code)
        if dtype.kind not in _KINDS or not 0 < dtype.itemsize <= _MOST_ITEM_BYTES:
            raise pickle.UnpicklingError(f"dtype {shown(code)}")
        return _Dtype(dtype)


class _Reconstruct(_NoKey):
    """Numpy's ``_reconstruct(ndarray, (0,), b"b")``: an empty array that gets its state next."""

    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, code: Any) -> np.ndarray:
        if kind is not _NDARRAY or shape != (0,) or code not in (b"b", "b"):
            raise pickle.UnpicklingError(f"array made of {shown((kind, shape, code))}")
        return _Array.__new__(_Array, 0, np.int8)


class _FromBuffer(_NoKey):
    """Numpy's ``_frombuffer(data, dtype, shape, order)`` of protocol 5."""

    __slots__ = ()

    def __call__(self, data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
        _check_contents(shape, dtype, data)
        if order not in ("C", "F"):
            raise pickle.UnpicklingError(f"array in order {shown(order)}")
        return np.ndarray(shape, dtype.dtype, bytearray(data), order=order)


class _Scalar(_NoKey):
    """Numpy's ``scalar(dtype, data)``."""

    __slots__ = ()

    def __call__(self, dtype: Any, data: Any) -> np.generic:
        _check_contents((), dtype, data)
        return np.ndarray((), dtype.dtype, data)[()]


class _Encode(_NoKey):
    """What bytes become under pickle protocols 0 to 2."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"bytes in encoding {shown(encoding)}")
        return text.encode("latin-1")


class _NoBytes(_NoKey):
    """What empty bytes become under pickle protocols 0 to 2."""

    __slots__ = ()

    def __call__(self) -> bytes:
        return b""


_NDARRAY = "numpy.ndarray"  # named by pickles, as a first argument alone, so a text will do

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _MakeDtype(),
    ("_codecs", "encode"): _Encode(),
    ("__builtin__", "bytes"): _NoBytes(),
}
for _core in ("numpy.core", "numpy._core"):  # as numpy 1 and numpy 2 wrote it
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _Reconstruct()
    _ALLOWED[f"{_core}.multiarray", "scalar"] = _Scalar()
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = _FromBuffer()


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BufferedIOBase, path: Path) -> None:
        super().__init__(file)
        self._path = path
        self.names_asked = 0

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"{self._path} asks for {shown(f'{module}.{name}')}, which annotations never need: "
                "do not trust this file; download it again from Action Genome"
            )
        self.names_asked += 1
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """The plain value in the pickle at `path`: dict, list, tuple, str, number, numpy array.

    Raises `InputError`, naming the file, when it is missing, empty, cut off, asks for any other
    global, or for far more memory than a file of its size can hold.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file, memory_limited(_SPARE + _BYTES_A_BYTE * size):
            return _without_collections(_PlainUnpickler(file, path))
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing; put Action Genome's annotations there, or give the root that has "
            "them"
        ) from None
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path") from error
    except MemoryError:
        raise InputError(
            f"{path} ({size} bytes) asks for far more memory than a file of its size holds: do not "
            "trust this file; download it again from Action Genome"
        ) from None
    except Exception as error:  # a broken pickle raises nearly anything
        raise InputError(
            f"{path} ({size} bytes) is not a whole pickle of plain values "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}); download or make it "
            "again"
        ) from error


def _without_collections(unpickler: _PlainUnpickler) -> Any:
    """Load with the garbage collector off, which would look at millions of new values in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        value = unpickler.load()
        return _plain(value) if unpickler.names_asked else value
    finally:
        if enabled:
            gc.enable()


_PLAIN = frozenset(
    (str, float, int, bool, type(None), bytes, bytearray, set, frozenset, np.ndarray)
) | {np.dtype(code).type for code in "?bhilqBHILQefdgSU"}


def _plain(value: Any) -> Any:
    """`value` with numpy's own arrays for those that were checked on the way, in place.

    Raises `UnpicklingError` for what is neither a plain container nor a number, text or array, and
    for an array in a tuple, which cannot be replaced there; Action Genome has none.
    """
    top = [value]
    seen, left = set(), [top]
    while left:
        container = left.pop()
        places = container.items() if type(container) is dict else enumerate(container)
        for place, item in places:
            kind = type(item)
            if kind in _PLAIN:
                continue
            if kind in (dict, list, tuple):
                if id(item) not in seen:
                    seen.add(id(item))
                    left.append(item)
            elif kind is _Array and type(container) is not tuple:
                container[place] = item.view(np.ndarray)
            else:
                what = "an array" if kind is _Array else "what is no value"
                raise pickle.UnpicklingError(f"{what} in a {type(container).__name__}")
    return top[0]
