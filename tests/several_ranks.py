"""Ranks that wait for work, so that a test of several does not start them."""

import gc
import os
import queue
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from training.ranks import Ranks
from training.stopping import StopRequest

try:
    from training.report import page
except ModuleNotFoundError:  # the library's tests, with the packages of the library alone
    page = None

SECONDS = 600.0
"""After which ranks hang; long, for the machine may be busy."""


class SeveralRanks:
    """Processes in one gloo group that run what they are given; started once, since slow.

    A rank that does not answer in time, or raises, fails the test, and the next one gets new ranks.
    """

    def __init__(self, folder: Path, world_size: int) -> None:
        self.folder = folder
        self.world_size = world_size
        self.processes: list = []
        self.starts = 0

    def run(self, function: Callable, *arguments: Any) -> list[Any]:
        """``function(ranks, *arguments)`` on all ranks; what each returned, in rank order."""
        if not self.processes:
            self._start()
        for tasks in self.tasks:
            tasks.put((function, arguments))
        deadline = time.monotonic() + SECONDS
        values: dict[int, Any] = {}
        while len(values) < self.world_size:
            try:
                rank, value, error = self.answers.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                self.close()
                missing = sorted({*range(self.world_size)} - {*values})
                pytest.fail(f"after {SECONDS:g} s ranks {missing} still hang")
            if error is not None:
                time.sleep(1)  # a rank that died took the connection of this one along
                ended = [process.exitcode for process in self.processes]
                self.close()
                pytest.fail(f"rank {rank} raised, exit codes are {ended}\n{error}")
            values[rank] = value
        return [values[rank] for rank in range(self.world_size)]

    def _start(self) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload([__name__])  # once for all ranks
        self.starts += 1
        meeting = self.folder / f"meeting{self.starts}"
        self.answers = context.Queue()
        self.tasks = [context.Queue() for _ in range(self.world_size)]
        self.processes = [
            context.Process(
                target=_serve, args=(rank, self.world_size, meeting, tasks, self.answers)
            )
            for rank, tasks in enumerate(self.tasks)
        ]
        for process in self.processes:
            process.start()
        for _ in self.processes:
            self.answers.get(timeout=SECONDS)  # each imports torch

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []


def start_ranks(folder: Path, world_size: int) -> Iterator[SeveralRanks]:
    """Ranks until the fixture that yields them ends."""
    with closing(SeveralRanks(folder, world_size)) as ranks:
        yield ranks


def _serve(rank: int, world_size: int, meeting: Path, tasks, answers) -> None:
    torch.set_num_threads(1)
    gc.freeze()  # a collection of what is imported takes half a second
    mp.set_start_method("fork", force=True)  # of data workers, as in a rank of torchrun
    os.environ["TQDM_DISABLE"] = "1"
    if page:
        page.write_or_warn = lambda *_: None  # a page takes longer than a run
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size
    )
    ranks = Ranks(rank, world_size, torch.device("cpu"))
    answers.put((rank, None, None))
    while True:
        function, arguments = tasks.get()
        try:
            fresh = replace(ranks, stop=StopRequest())  # a test may ask a rank to stop
            answers.put((rank, function(fresh, *arguments), None))
        except BaseException:
            answers.put((rank, None, traceback.format_exc()))
