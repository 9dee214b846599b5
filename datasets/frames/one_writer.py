"""A lock that lets one process at a time write a folder."""

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
        seconds: time to wait for another process; -1: no limit.

    Raises:
        InputError: another process holds the lock, or there is no place for it.
    """
    lock = lock or folder.parent / f".{folder.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock, timeout=seconds).acquire()
    except Timeout:
        raise InputError(f"another process is writing {folder}; wait or stop it") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error}); give another folder") from error
    with held:
        yield
