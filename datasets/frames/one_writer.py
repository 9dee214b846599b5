"""A lock, so that one process at a time writes a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bload.errors import InputError

SILENT = 60.0
"""Seconds after which a process that waits says so."""


@contextmanager
def one_writer(folder: Path, *, lock: Path | None = None, seconds: float = -1) -> Iterator[None]:
    """Hold the lock of `folder`; the system frees it if this process is killed.

    So whoever waits, waits for a process that lives, and says after a minute that it does.

    Args:
        lock: the lock file; default: one beside the folder.
        seconds: wait that long for another process to finish; -1: as long as it takes.

    Raises:
        InputError: another process holds the lock, or nothing can be written there.
    """
    file_lock = FileLock(lock or folder.parent / f".{folder.name}.lock")
    try:
        Path(file_lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        try:
            file_lock.acquire(timeout=SILENT if seconds < 0 else seconds)
        except Timeout:
            if seconds >= 0:
                raise
            print(
                f"waiting for another process, here or on another machine, that is writing "
                f"{folder}; it holds {file_lock.lock_file}, `fuser` names it",
                flush=True,
            )
            file_lock.acquire()
    except Timeout:
        raise InputError(f"another process is writing {folder}; wait or stop it") from None
    except (OSError, NotImplementedError) as error:
        raise InputError(
            f"cannot write and lock at {file_lock.lock_file} ({error}); give a path in a folder "
            "you may write, on a file system that has locks"
        ) from error
    try:
        yield
    finally:
        file_lock.release()
