"""One process at a time writes a folder; the others wait."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bload.errors import InputError


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Hold the lock beside `folder`; the system frees it if this process is killed.

    Raises `InputError` if nothing can be written there.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise InputError(
            f"cannot write and lock beside {folder} ({error.strerror or error}); "
            "give a path in a folder you may write, on a file system that has locks"
        ) from error
    with lock:
        yield
