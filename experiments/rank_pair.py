"""Two processes that train together, and a parent that waits only as long as they make progress.

No process outlives the job: the parent kills what it started, and a rank whose parent is gone ends
itself. Ranks are forked from a server that has imported PyTorch, so they start at once.
"""

import gc
import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

RANKS = 2
START_LIMIT = 120.0
"""Seconds that ranks may take to start and to plan, on a busy machine."""
PRELOADED = ["experiments.measured", "experiments.sequences", "torch._dynamo"]
"""What the server of the ranks imports; an optimiser imports the last when it is first used."""

Ended = Literal["finished", "failed", "gone", "running"]


@dataclass(slots=True)
class RankOutcome:
    """The end of one rank: ``gone`` exited without a message, ``running`` was killed."""

    ended: Ended = "running"
    steps: int = 0  # done
    planned: int = 0  # that its data hold
    seconds: float = 0.0  # since it announced its plan, or since it was started if it never did
    message: str = ""  # the exception's, if it failed


class Reporter:
    """Reports of a rank to its parent: ``plan(steps)`` before the first step, then each step."""

    def __init__(self, connection: Connection) -> None:
        self.plan = lambda steps: connection.send(("planned", steps))
        self.step = lambda: connection.send(("step", 1))


Job = Callable[[int, Reporter], bool]


def run_pair(job: Job, patience: float) -> list[RankOutcome]:
    """Run a job on two ranks, and kill them when they stand still.

    Args:
        job: ``job(rank, progress)``, any picklable callable. It calls ``progress.plan(steps)``
            before the first step and ``progress.step()`` after every one. If it returns True its
            rank exits at once, else the rank stays until the other one has ended too.
        patience: seconds without a step on any rank after which both are killed; until both have
            planned, `START_LIMIT`.
    """
    outcomes = [RankOutcome() for _ in range(RANKS)]
    began = [time.monotonic()] * RANKS
    connections: dict[Any, int] = {}
    processes = []
    context = _context()
    try:
        for rank in range(RANKS):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_serve, args=(job, rank, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            connections[mine] = rank
        while connections:
            planned = all(outcome.planned for outcome in outcomes)
            ready: list[Any] = wait(list(connections), patience if planned else START_LIMIT)
            if not ready:
                break
            for connection in ready:
                rank = connections[connection]
                outcome = outcomes[rank]
                try:
                    kind, value = connection.recv()
                except (EOFError, ConnectionError):
                    kind, value = "gone", ""
                if kind == "planned":
                    outcome.planned = value
                    began[rank] = time.monotonic()
                elif kind == "step":
                    outcome.steps += value
                else:
                    outcome.ended, outcome.message = kind, value
                    outcome.seconds = time.monotonic() - began[rank]
                    del connections[connection]
    finally:
        for process in processes:
            process.kill()
            process.join()
    for rank in connections.values():
        outcomes[rank].seconds = time.monotonic() - began[rank]
    return outcomes


def _context() -> mp.context.ForkServerContext:
    """The server's context. Ranks inherit from the server that Ctrl-C is left to their parent."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, handler)
    return context


def _serve(job: Job, rank: int, connection: Connection) -> None:
    """Entry point of a rank."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.freeze()  # collecting what the server imported would copy its memory
    import torch  # there already

    torch.set_num_threads(1)
    try:
        leaves = job(rank, Reporter(connection))
    except Exception as error:
        connection.send(("failed", str(error)))
    else:
        connection.send(("finished", ""))
        if leaves:
            os._exit(0)
    _end_with_parent()


def _end_with_parent() -> None:
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
