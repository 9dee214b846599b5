"""Signals that ask a run to stop, and the death of the process that started it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SAME = 2.0
"""Seconds within which several signals are one wish: a terminal and torchrun both send theirs."""
STUCK = 2.0
"""Seconds that a signal has to reach the main thread, outside of steps."""
GRACE = 8.0
"""Seconds that a rank has for the end of its step once its launcher is gone."""


class Stopped(KeyboardInterrupt):
    """A signal stopped this process; `number` is the signal's, `saved` where a run goes on."""

    def __init__(self, number: int, saved: str = "") -> None:
        super().__init__(number, saved)
        self.number, self.saved = number, saved

    def __str__(self) -> str:
        where = self.saved or "the last checkpoint, if one was written"
        name = signal.Signals(self.number).name
        return f"stopped by {name}; the same command goes on from {where}"

    @property
    def status(self) -> int:
        """Exit status by which schedulers recognise the signal."""
        return 128 + self.number


class StopRequest:
    """The wish of a signal to stop this process.

    A signal raises `Stopped` where the process is, but inside `deferred` it only sets `number`,
    for the caller to look at between steps. A second one ends the process at once, and so does the
    first if the main thread cannot be interrupted, as while torch waits for ranks to join.
    """

    def __init__(self) -> None:
        self.number = 0
        self._deferred = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Receive the signals, but for those that this process was started to ignore."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        threading.Thread(target=self._watch, args=[reader], name="signals", daemon=True).start()
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number, handler in before.items():
            if handler != signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._receive)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(writer)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            return
        self.number = number
        if not self._deferred:
            raise Stopped(number)

    def _watch(self, reader: int) -> None:
        """Do what the main thread may not come to; Python writes every signal to the pipe."""
        first = 0.0
        while received := os.read(reader, 1):
            number, now = received[0], time.monotonic()
            if number not in SIGNALS:
                continue
            if not first:
                first = now
                look = threading.Timer(STUCK, self._end_if_stuck, [number])
                look.daemon = True
                look.start()
            elif now - first > SAME:
                _end(number, f"ended by a second {signal.Signals(number).name}")
        os.close(reader)

    def _end_if_stuck(self, number: int) -> None:
        if not self.number and not self._deferred:
            _end(number, str(Stopped(number)))

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let signals wait for the caller."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False


def _end(number: int, sentence: str) -> None:
    print(f"\n{sentence}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def watch_parent(ended: Callable[[], object]) -> None:
    """Call `ended` from a thread once the process that started this one is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        ended()

    threading.Thread(target=watch, name="watch_parent", daemon=True).start()


def apart(worker: int) -> None:
    """Take a data worker out of the signals to its rank's group; it ends when the rank has.

    Torch's own worker would wait for ever for somebody to read the batches that it has ready.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)  # its signals are not its rank's
    watch_parent(lambda: os._exit(1))


def stop_soon() -> None:
    """Ask this process to stop, and end it if it has not after `GRACE` seconds."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(128 + signal.SIGTERM)


def end_launcher() -> None:
    """End the process that started this one if it is still there after `GRACE` seconds."""
    command = f"sleep {GRACE}; kill -9 {os.getppid()} 2>/dev/null"
    subprocess.Popen(["sh", "-c", command], start_new_session=True)
