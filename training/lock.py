"""One run in a folder at a time."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from bload.errors import InputError
from training.failures import IN_USE
from training.ranks import Ranks

WAIT = 10.0
"""Seconds in which data workers of a killed run notice that it is gone, and end."""


@contextmanager
def lock(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Keep other runs out of a folder, which is made if need be.

    All ranks share the lock and the system releases it when they end, however that happens. So a
    new run cannot write beside a rank that an old one left behind.

    Raises:
        InputError: a process of another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        if ranks.is_first:
            _acquire(file, fcntl.LOCK_EX, folder, WAIT)
            file.truncate(0)
            print(f"process {os.getpid()} on {socket.gethostname()}", file=file, flush=True)
            for part in folder.glob("*.[0-9]*.part"):
                part.unlink()  # of a process that was killed while it wrote, see `write_whole`
            # The system lets go of one lock before it gives the other. Another start may come in
            # between; then this one has lost, and must not share the lock with it later.
            _acquire(file, fcntl.LOCK_SH, folder, 0)
        ranks.barrier()
        if not ranks.is_first:
            _acquire(file, fcntl.LOCK_SH, folder, 0)
        yield


def _acquire(file: TextIO, how: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                file.seek(0)
                raise InputError(
                    f"{folder} {IN_USE} {file.read().strip()}; wait for its end, stop it, or "
                    "give this run a run.name of its own"
                ) from None
            time.sleep(0.2)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be locked ({error.strerror}): its file system has no flock; give "
                "a run.root on another one"
            ) from error
