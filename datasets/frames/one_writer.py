"""A lock, so that one process at a time writes a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bload.errors import InputError


@contextmanager
def one_writer(folder: Path, *, lock: Path | None = None, seconds: float = -1) -> Iterator[None]:
    """Hold the lock of `folder`; the system frees it if this process is killed.

    Args:
        lock: the lock file; default: one beside the folder.
        seconds: wait that long for another process to finish; -1: as long as it takes.

    Raises:
        InputError: another process holds the lock.
    """
    lock = lock or folder.parent / f".{folder.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=seconds):
            yield
    except Timeout:
        raise InputError(f"another process is writing {folder}; wait or stop it") from None
