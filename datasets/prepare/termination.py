"""SIGTERM, as schedulers and service managers send it, ends a run as Ctrl-C does."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SECONDS_TO_STOP = 10


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` on the first SIGTERM inside; more of them do not disturb the clean-up."""
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def leave_to_parent() -> None:
    """Have this process go on after Ctrl-C and SIGTERM: its parent tells it to stop.

    Both may reach a whole group of processes. One that gets SIGTERM ends by itself if the parent
    has not ended it after ten seconds.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_soon)


def _raise(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _end_soon(number: int, frame: FrameType | None) -> None:
    timer = threading.Timer(_SECONDS_TO_STOP, os._exit, (1,))
    timer.daemon = True
    timer.start()
