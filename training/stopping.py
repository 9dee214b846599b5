"""Signals that ask a run to save and end, and processes that end with those that started them.

1. A handler notes the signal (`StopRequest.heard`, while train.py trains).
2. The ranks agree on it in the all-reduce of the next step's counts (`training.step.step_counts`).
3. They save after that step and raise `Stopped`: status 128 + the signal's number under ``python``.
   Under torchrun the status is its own, 1.

torchrun passes a signal on to the whole process group of a rank, kills ranks that need more than
30 seconds then (``--shutdown-timeout 120`` gives them more time), and passes USR1 on only with
``--signals-to-handle``, see docs/reliability.md.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
PR_SET_PDEATHSIG = 1
"""Linux: the signal that a process gets when the one that started it has ended."""


class Stopped(SystemExit):
    """A signal has ended this run, which is saved. The exit status is 128 + the signal's number."""

    def __init__(self, number: int, saved: str) -> None:
        super().__init__(128 + number)
        self.sentence = (
            f"stopped by {signal.Signals(number).name}; the same command goes on from {saved}"
        )


class StopRequest:
    """A signal that has asked this run to save after the step under way, and to end."""

    def __init__(self) -> None:
        self.number = 0
        """The signal's number; 0: none has come."""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Note signals in the body, but for those that are ignored, as HUP under nohup."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.number and os.environ.get("RANK", "0") == "0":
            os.write(2, b"\nstopping after this step\n")  # a print may be under way
        self.number = number


def end_with_launcher() -> None:
    """Have Linux end this process, if it is a rank, as soon as its torchrun has ended."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or sys.platform != "linux":
        return
    _end_with_parent()
    if os.getppid() == 1 and b"python" not in Path("/proc/1/cmdline").read_bytes():
        sys.exit("torchrun had ended before this rank began")


def detach_worker(worker: int) -> None:
    """Let signals to its rank's process group not end a data worker, but the end of its rank.

    Else torchrun's signal would end the workers first, and their rank would fail before it saves.
    """
    os.setsid()
    _end_with_parent()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
