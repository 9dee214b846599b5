"""Reading pickles that came from the internet: plain containers and numpy arrays, nothing else.

A pickle may name any importable function and have it called. Here the names are limited to the
few that numpy's own arrays, scalars and dtypes need; every other name is refused before anything
is imported or called.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from bload.errors import InputError


def _encode(text: str, encoding: str = "utf-8") -> bytes:
    """What bytes become under pickle protocols 0 to 2."""
    if encoding not in ("latin1", "latin-1", "utf-8"):
        raise pickle.UnpicklingError(f"bytes in encoding {encoding!r}")
    return text.encode(encoding)


def _no_bytes() -> bytes:
    """What empty bytes become under pickle protocols 0 to 2."""
    return b""


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
}
for _core in ("numpy.core", "numpy._core"):  # as numpy 1 and numpy 2 wrote it
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = np.zeros(1).__reduce__()[0]
    _ALLOWED[f"{_core}.multiarray", "scalar"] = np.float64(0).__reduce__()[0]
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = np.zeros(1).__reduce_ex__(5)[0]


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BufferedIOBase, path: Path) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"{self._path} asks for '{module}.{name}', which annotations never need: "
                "do not trust this file; download it again from Action Genome"
            )
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """The plain value in the pickle at `path`: dict, list, tuple, str, number, numpy array.

    Raises `InputError`, naming the file, when it is missing, empty, cut off or asks for any
    other global.
    """
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file, path).load()
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing; put Action Genome's annotations there, or make a synthetic root "
            "with python -m datasets.synthetic --root DIR"
        ) from None
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path") from error
    except Exception as error:  # a broken pickle raises nearly anything
        size = path.stat().st_size
        raise InputError(
            f"{path} ({size} bytes) is not a whole pickle ({type(error).__name__}: {error}); "
            "download or make it again"
        ) from error
