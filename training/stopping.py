"""Signals that ask a run to save and end, and processes that end with their parent.

1. A handler notes the signal (`StopRequest.record_signals`, while train.py trains).
2. The ranks agree on it after each step (`Run.save_or_stop`).
3. They save and raise `Stopped`. The exit status is 128 + the signal's number under
   ``python``, and 1 under torchrun.

What torchrun does with signals is in docs/reliability.md.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from bload.errors import InputError

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
PR_SET_PDEATHSIG = 1
"""Linux: option for the signal that a process gets when its parent ends."""


class AgreedError(InputError):
    """An `InputError` that every rank raises, so that their next job begins on all of them."""


class Stopped(SystemExit):
    """Exit on a signal when all is saved, with status 128 + the signal's number."""

    def __init__(self, signal_number: int, saved: str) -> None:
        super().__init__(128 + signal_number)
        self.sentence = f"stopped by {signal.Signals(signal_number).name}; {saved}"


class StopRequest:
    """A signal's request to save after the current step and end."""

    def __init__(self) -> None:
        self.signal_number = 0
        """The signal's number; 0 before a signal."""

    @contextmanager
    def record_signals(self) -> Iterator[None]:
        """Record signals in the body."""
        old_handlers = handle_signals(self._handle)
        try:
            yield
        finally:
            for signal_number, handler in old_handlers.items():
                signal.signal(signal_number, handler)
        if self.signal_number:  # it came after the last step
            _end(self.signal_number, None)

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        if signal_number == self.signal_number == signal.SIGINT and "RANK" not in os.environ:
            _end(signal_number, None)  # a second Ctrl-C waits for nothing
        is_told = self.signal_number or os.environ.get("RANK", "0") != "0"
        self.signal_number = signal_number
        if not is_told:
            say("stopping after this step")


def handle_signals(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle signals, except ignored ones, such as HUP under nohup; return the old handlers."""
    heard = [int(number) for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heard}


def end_on_signals() -> None:
    """End this process on a signal before its run has begun, with the status that a run ends with.

    A rank of several ends at once instead, as it may be waiting for the others.
    """
    if "RANK" not in os.environ:
        handle_signals(_end)


def _end(signal_number: int, frame: FrameType | None) -> None:
    name = signal.Signals(signal_number).name
    say(f"stopped by {name}; the same command begins again, or goes on")
    os._exit(128 + signal_number)  # Python ignores what a handler raises inside a ``__del__``


def say(words: str) -> None:
    """Write a line, though a print may be under way, and though nobody may read it any more."""
    with suppress(OSError):
        os.write(2, f"\n{words}\n".encode())


def detach_worker(worker: int) -> None:
    """Shield a data worker from signals to its rank's process group; it ends with its rank.

    Else torchrun's signal would end the workers first, and their rank would fail before saving.
    """
    os.setsid()
    end_with_parent()


def end_with_parent() -> None:
    """Make Linux end this process as soon as its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
