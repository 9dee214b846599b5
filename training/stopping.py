"""Signals that ask a run to stop, and the death of the process that started it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SAME = 2.0
"""Seconds within which several signals are one wish: a terminal and torchrun both send theirs."""
STUCK = 2.0
"""Seconds that a signal has to reach the main thread, outside of steps."""
GRACE = 8.0
"""Seconds that a rank has for the end of its step once its launcher is gone."""
STARTER = "BLOAD_STARTER"
"""Environment variable: the process that started this one, which may have ended since."""
GOES_ON = "the same command goes on from "
TRAINS = "give the same command again, training goes on from its last checkpoint, if any"
WAITS = b"stopping after this step; once more ends at once\n"


class Stopped(KeyboardInterrupt):
    """A signal stopped this process; `number` is the signal's, `saved` where a run goes on."""

    again = ""
    """What to do where nothing was `saved`; see `begin`."""

    def __init__(self, number: int, saved: str = "") -> None:
        super().__init__(number, saved)
        self.number, self.saved = number, saved

    def __str__(self) -> str:
        name = signal.Signals(self.number).name
        why = ", as nobody reads its output any more" if self.number == signal.SIGPIPE else ""
        more = GOES_ON + self.saved if self.saved else self.again
        return f"stopped by {name}{why}{f'; {more}' if more else ''}"

    @property
    def status(self) -> int:
        """Exit status by which schedulers recognise the signal."""
        return 128 + self.number


class Output:
    """Standard output, of which `unread` is called when its reader has gone, as in ``| head``.

    What is printed from then on goes nowhere.
    """

    def __init__(self, stream: Any, unread: Callable[[], None]) -> None:
        self._stream, self._unread = stream, unread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._noticing():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._noticing():
            self._stream.flush()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            self._unread()


@contextmanager
def printing(unread: Callable[[], None]) -> Iterator[None]:
    """Call `unread` when nobody reads any more what the body prints."""
    stream, sys.stdout = sys.stdout, Output(sys.stdout, unread)  # type: ignore[assignment]
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout = stream


def leave_unread() -> None:
    """End the process without a word, with the status of one whose output is not read."""
    sys.exit(128 + signal.SIGPIPE)


class StopRequest:
    """The wish of a signal to stop this process.

    A signal raises `Stopped` where the process is, but inside `deferred` it only sets `number`,
    for the caller to look at between steps, and rank 0 says so. A second one ends the process at
    once, and so does the first if the main thread cannot be interrupted, as while torch waits for
    ranks to join.
    """

    def __init__(self) -> None:
        self.number = 0
        self._deferred = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Receive the signals, but for those ignored, as under nohup, or handled by a library.

        The end of standard output's reader is one of them.
        """
        before = {number: signal.getsignal(number) for number in SIGNALS}
        before = {n: how for n, how in before.items() if how not in (None, signal.SIG_IGN)}
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        threading.Thread(target=self._watch, args=[reader], name="signals", daemon=True).start()
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in before:
            signal.signal(number, self._receive)
        try:
            with printing(self._unread):
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
        if os.environ.get("RANK", "0") == "0":
            with suppress(OSError):  # a print may be under way in which another one is an error
                os.write(2, b"\n" * os.isatty(2) + WAITS)  # below the bar that is there

    def _unread(self) -> None:
        """Take the end of the output's reader for a signal that waits for a step."""
        self.number = self.number or signal.SIGPIPE

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
    if sentence:
        print(f"\n{sentence}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def starter() -> int:
    """Process that started this rank, as that one has handed down; torchrun hands down none."""
    parent = os.getppid()
    command = Path("/proc/1/cmdline")
    if parent == 1 and command.exists() and b"python" not in command.read_bytes():
        parent = 0  # not torchrun, which may be 1 in a container: that had ended before
    return int(os.environ.get(STARTER, parent))


def begin(trains: bool = False) -> None:
    """Hear signals, and the end of the launcher, in the seconds in which torch is imported.

    There is nothing to save yet. `StopRequest` takes over. A process that `trains` says when it is
    stopped how training goes on.
    """
    Stopped.again = TRAINS if trains else ""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _leave)
    watch_launcher()


def _leave(number: int, frame: FrameType | None) -> None:
    speaks = STARTER not in os.environ and os.environ.get("RANK", "0") == "0"
    _end(number, str(Stopped(number)) if speaks else "")


@cache
def watch_launcher() -> None:
    """Stop this rank, if it is one, soon after its launcher; it is enough to call this once."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        watch_parent(starter(), stop_soon)


def watch_parent(parent: int, ended: Callable[[], object]) -> None:
    """Call `ended` from a thread once `parent` is not the parent of this process any more."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        ended()

    threading.Thread(target=watch, name="watch_parent", daemon=True).start()


@cache
def fork_apart() -> None:
    """Take data workers out of the signals to this process's group from their first moment on.

    Torchrun signals the group. A worker that it hit before `apart` would end, and its rank fail.
    """
    os.register_at_fork(after_in_child=_fork_apart)


def _fork_apart() -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)  # its signals are not its rank's


def apart(worker: int) -> None:
    """Prepare a data worker: it hears its own signals alone, and ends when its rank has.

    Torch's own worker would wait for ever for somebody to read the batches that it has ready.
    """
    with suppress(PermissionError):  # where `fork_apart` has done so before
        os.setsid()
    for number in {*SIGNALS} - {signal.SIGTERM}:  # torch's own ends it in peace for its rank
        signal.signal(number, signal.SIG_DFL)
    if (rank := multiprocessing.parent_process()) and rank.pid:
        watch_parent(rank.pid, lambda: os._exit(1))


def stop_soon() -> None:
    """Ask this process to stop, and end it if it has not after `GRACE` seconds."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(128 + signal.SIGTERM)


def end_launcher() -> None:
    """End the process that started this one if it stands still after `GRACE` seconds.

    A launcher looks at its ranks ten times a second, also when it waits for their end. One that
    waits for an answer which cannot come does nothing, as Linux counts.
    """
    process = Path("/proc", str(os.getppid()))
    if process.name == "1":  # it took over this process, or is the whole container
        return
    try:
        started = (process / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:  # no Linux, or it has ended
        return
    switches = f"$(grep ^voluntary {process}/status)"
    same = f'[ "$before" = "{switches}" ] && grep -q " {started} " {process}/stat'
    command = f"sleep {GRACE}; before={switches}; sleep 2; {same} && kill -9 {process.name}"
    subprocess.Popen(["sh", "-c", command], start_new_session=True, stderr=subprocess.DEVNULL)
