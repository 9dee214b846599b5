"""A trial of a pickle in a process of its own, under limits, before this process loads it.

A few bytes can nest tuples so deeply, or repeat them so often, that hashing them overflows the
stack or never ends, or ask for a memo of many gigabytes. No list of allowed names notices that.
The trial takes every name for the same harmless class, so it calls nothing.

This file is also the program of that process, which needs Python's own modules alone.
"""

import contextlib
import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from typing import Any

STACK = 2**20  # bytes, far below the 8 MiB of a process
SECONDS, BYTES_PER_SECOND = 1, 2**20  # of the processor; loading is 20 times as fast
MEMORY, MEMORY_PER_BYTE = 2**29, 24  # loading takes 6 to 10 times the size of the file


def try_pickle(content: bytes) -> None:
    """Load a pickle in another process and hash the tuples in it.

    Raises `pickle.UnpicklingError` if that process does not come through.
    """
    command = [sys.executable, "-I", "-S", __file__, str(len(content))]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    if done.returncode < 0:
        how = signal.Signals(-done.returncode).name
        raise pickle.UnpicklingError(f"it nests too deeply or takes too long, trial ended by {how}")
    if done.returncode:
        raise pickle.UnpicklingError(done.stderr.decode(errors="replace")[:200])


class _Anything(dict):
    """An object that can be made, filled and used as a key, and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __hash__(self) -> int:  # type: ignore[override]
        return 0

    def __setstate__(self, state: object) -> None:
        pass

    def append(self, item: object) -> None:
        pass


class _Trial(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Anything

    def persistent_load(self, pid: Any) -> Any:
        return _Anything()


def _load() -> None:
    """Try the pickle on standard input, say what is wrong with it, and end the process."""
    try:
        value = _Trial(sys.stdin.buffer).load()
        for each in (value, *gc.get_objects()):
            if type(each) is tuple:
                with contextlib.suppress(TypeError):  # it holds a list
                    hash(each)
        os._exit(0)
    except Exception as error:
        os.write(2, f"{type(error).__name__}: {error}".encode(errors="replace")[:1000])
        os._exit(1)


def _limit(what: int, most: int) -> None:
    """Limit this process, which may already be limited to less."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    size = int(sys.argv[1])
    seconds, memory = SECONDS + size // BYTES_PER_SECOND, MEMORY + MEMORY_PER_BYTE * size
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, seconds)
    with contextlib.suppress(ValueError):  # macOS refuses some limits, and keeps none of this kind
        _limit(resource.RLIMIT_AS, memory)
    gc.disable()  # it would stop tracking tuples of plain values
    threading.stack_size(STACK)
    threading.Thread(target=_load).start()


if __name__ == "__main__":
    main()
