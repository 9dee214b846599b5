"""The lock of a frames folder: one process at a time writes it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bload.errors import InputError

_LOCK = ".prepare.lock"


@contextmanager
def only_writer(frames_folder: Path) -> Iterator[None]:
    """Hold the lock, which the system frees when this process ends; `InputError` if it is held."""
    with (frames_folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another process is writing {frames_folder}; wait or stop it"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def is_being_written(frames_folder: Path) -> bool:
    """Whether a process holds the lock now."""
    try:
        with (frames_folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # never locked, or a file system without locks
    return False
