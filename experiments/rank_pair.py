"""Two processes that train together, and a parent that never waits for them longer than it says.

Whatever happens to the ranks or the parent, no process stays: the parent kills what it started, and
a rank whose parent is gone ends itself.
"""

import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal, NamedTuple

RANKS = 2
START_LIMIT = 120.0
"""Seconds that ranks may take to import what they need, on a busy machine."""
POLL = 0.1
"""Seconds between two looks at the ranks."""

Ended = Literal["finished", "failed", "gone", "running"]


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """How one rank ended: ``gone`` has exited without a word, ``running`` was killed."""

    ended: Ended
    steps: int
    """Steps done."""
    planned: int
    """Steps that its data hold."""
    seconds: float
    """Since it planned; of a rank that did not answer, since it got the job."""
    message: str = ""
    """Of the exception if it failed."""


class RankPair:
    """Two ranks that run one job after another; a context, at whose end they are killed.

    A job is ``job(rank, progress)``, any picklable callable. It calls ``progress.plan(steps)``
    before the first and ``progress.step()`` after every step. If it returns True its rank exits at
    once, else the rank stays and waits. After a job that left a rank dead or standing the next one
    gets new ranks.
    """

    def __init__(self) -> None:
        self.processes: list[mp.Process] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> "RankPair":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, job: Callable[[int, "Progress"], bool], patience: float) -> list[RankOutcome]:
        """Run a job on both ranks, and kill them when they stand still.

        Args:
            patience: seconds without a step on any rank after which they are killed; until both
                have planned, `START_LIMIT`.
        """
        if not self.processes:
            self._start()
        for count in self._counts:
            count.steps.value = count.planned.value = 0
        for connection in self._connections:
            connection.send(job)
        began = moved = time.monotonic()
        answers: dict[int, _Answer] = {}
        seen: list[int] = []
        while len(answers) < RANKS:
            waiting = [c for rank, c in enumerate(self._connections) if rank not in answers]
            for connection in wait(waiting, POLL):
                answers[self._connections.index(connection)] = _receive(connection, began)
            now = [len(answers), *(c.value for count in self._counts for c in count)]
            if now != seen:
                seen, moved = now, time.monotonic()
            planned = all(count.planned.value for count in self._counts)
            if time.monotonic() - moved > (patience if planned else START_LIMIT):
                break
        late = _Answer("running", time.monotonic() - began)
        ends = [answers.get(rank, late) for rank in range(RANKS)]
        outcomes = [
            RankOutcome(end.ended, count.steps.value, count.planned.value, end.seconds, end.message)
            for end, count in zip(ends, self._counts, strict=True)
        ]
        if any(end.leaves or end.ended in ("gone", "running") for end in ends):
            self.close()
        return outcomes

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._counts = [_Counts(context.RawValue("q"), context.RawValue("q")) for _ in range(RANKS)]
        # A rank inherits that Ctrl-C is ignored, from its first instruction on: its parent acts.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for rank, counts in enumerate(self._counts):
                mine, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(rank, theirs, counts), daemon=True)
                process.start()
                theirs.close()
                self.processes.append(process)
                self._connections.append(mine)
        finally:
            signal.signal(signal.SIGINT, handler)
        deadline = time.monotonic() + START_LIMIT
        for connection in self._connections:
            if not connection.poll(max(deadline - time.monotonic(), 0)):
                raise RuntimeError(f"the ranks did not start within {START_LIMIT:.0f} s")
            connection.recv()

    def close(self) -> None:
        """Kill the ranks; the next job gets new ones."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        for connection in self._connections:
            connection.close()
        self.processes, self._connections = [], []


class _Answer(NamedTuple):
    """What a rank says of a job."""

    ended: Ended
    seconds: float
    message: str = ""
    leaves: bool = False


class _Counts(NamedTuple):
    """Two numbers in memory that a rank and its parent share."""

    steps: Any
    planned: Any


class Progress:
    """How far a rank has come; the parent can read it whatever becomes of the rank."""

    def __init__(self, counts: _Counts) -> None:
        self._counts = counts
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def plan(self, steps: int) -> None:
        self._counts.planned.value = steps
        self._began = time.monotonic()

    def step(self) -> None:
        self._counts.steps.value += 1


def _receive(connection: Connection, began: float) -> _Answer:
    try:
        return connection.recv()
    except (EOFError, ConnectionError):
        return _Answer("gone", time.monotonic() - began)


def _serve(rank: int, connection: Connection, counts: _Counts) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch  # the slow part of starting

    torch.set_num_threads(1)
    connection.send("ready")
    while True:
        job = connection.recv()
        progress = Progress(counts)
        try:
            leaves = job(rank, progress)
        except Exception as error:
            connection.send(_Answer("failed", progress.seconds, str(error)))
        else:
            connection.send(_Answer("finished", progress.seconds, leaves=leaves))
            if leaves:
                os._exit(0)


def _end_with_parent() -> None:
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
