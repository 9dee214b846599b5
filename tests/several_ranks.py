"""Ranks that wait for work, so that a test of several does not start them."""

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
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
        self.pools: list[ProcessPoolExecutor] = []
        """One per rank, of one process."""
        self.starts = 0

    def run(self, function: Callable, *arguments: Any) -> list[Any]:
        """``function(ranks, *arguments)`` on all ranks; what each returned, in rank order."""
        if not self.pools:
            self._start()
        answers = [pool.submit(_call, function, arguments) for pool in self.pools]
        wait(answers, SECONDS, FIRST_EXCEPTION)
        errors = {rank: one.exception() for rank, one in enumerate(answers) if one.done()}
        for rank, error in errors.items():
            if error is not None:
                self.close()
                raise AssertionError(f"rank {rank} failed") from error
        if len(errors) < self.world_size:
            self.close()
            pytest.fail(f"after {SECONDS:g} s only ranks {[*errors]} have answered")
        return [answer.result() for answer in answers]

    def _start(self) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload([__name__])  # once for all ranks
        self.starts += 1
        meeting = self.folder / f"meeting{self.starts}"
        for rank in range(self.world_size):
            group = rank, self.world_size, meeting
            self.pools.append(ProcessPoolExecutor(1, context, _join, group))
        wait([pool.submit(os.getpid) for pool in self.pools], SECONDS)  # each imports torch

    def close(self) -> None:
        for pool in self.pools:
            for process in pool._processes.values():
                process.kill()
            pool.shutdown()
        self.pools = []


def start_ranks(folder: Path, world_size: int) -> Iterator[SeveralRanks]:
    """Ranks until the fixture that yields them ends."""
    with closing(SeveralRanks(folder, world_size)) as ranks:
        yield ranks


def _join(rank: int, world_size: int, meeting: Path) -> None:
    """Make this process a rank."""
    global _ranks
    torch.set_num_threads(1)
    gc.freeze()  # a collection of what is imported takes half a second
    mp.set_start_method("fork", force=True)  # of data workers, as in a rank of torchrun
    os.environ["TQDM_DISABLE"] = "1"
    if page:
        page.write_or_warn = lambda *_: None  # a page takes longer than a run
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size
    )
    _ranks = Ranks(rank, world_size, torch.device("cpu"))


def _call(function: Callable, arguments: tuple) -> Any:
    return function(replace(_ranks, stop=StopRequest()), *arguments)  # a test may ask it to stop
