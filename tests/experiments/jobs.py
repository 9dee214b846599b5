"""Small jobs for the tests of training: configs, what a run leaves behind, and ranks that wait."""

import json
import os
import queue
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from datasets.synthetic import World
from experiments import engine
from experiments.cli import check_overrides
from experiments.config import register
from experiments.ranks import Ranks

REPOSITORY = Path(__file__).parents[2]
WORLD = World(train_videos=8, test_videos=4, image_size=32, seed=3, drop_rate=0.1)
"""Lengths 33 45 14 10 22 27 18 5 for training, 35 12 23 53 for testing."""

DATA_KNOBS = [f"dataset.{k}={v}" for k, v in WORLD.manifest().items() if k != "version"]
TIMES = ("second", "peak_memory", "folder", "results")
"""What figures that differ between two equal runs have in their names."""


def overrides(root: Path, runs: Path, *more: str) -> list[str]:
    """Two epochs of the tiny network on one rank's worth of 64 frames, on the small root."""
    return [
        *DATA_KNOBS,
        f"dataset.root={root}",
        f"run.root={runs}",
        "wandb.mode=disabled",
        "train.epochs=2",
        "train.batch_frames=64",
        "train.workers=0",
        "train.device=cpu",
        *more,
    ]


def compose_config(name: str, lines: list[str]) -> Any:
    """The `TrainJob` or `EvalJob` of a command line."""
    register()
    return check_overrides(name, lines)


def one_rank() -> Ranks:
    return Ranks(0, 1, torch.device("cpu"))


def only_run(runs: Path) -> Path:
    """The folder of the only run under `runs`."""
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def metrics(folder: Path) -> list[dict]:
    """The lines of ``metrics.jsonl`` without times, memory and places."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not any(t in k for t in TIMES)} for line in lines]


def checkpoint(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "last.pt", weights_only=True)


def assert_same_run(one: Path, other: Path) -> None:
    """Bit-equal weights and optimisers, the same figures."""
    for part in ("model", "optimiser"):
        torch.testing.assert_close(checkpoint(one)[part], checkpoint(other)[part], rtol=0, atol=0)
    assert metrics(one) == metrics(other)


@contextmanager
def interrupted(at: tuple[int, int]) -> Iterator[None]:
    """Stop training by Ctrl-C just before the step ``(epoch, step)`` is taken."""
    train_step = engine.train_step

    def stop_there(training: Any, batch: Any, epoch: int, step: int, steps: int) -> engine.Step:
        if (epoch, step) == at:
            raise KeyboardInterrupt
        return train_step(training, batch, epoch, step, steps)

    with mock.patch.object(engine, "train_step", stop_there):
        yield


class SeveralRanks:
    """Processes (two) in one gloo group that run what they are given; started once, since slow.

    A rank that does not answer in time, or raises, fails the test, and the next one gets new ranks.
    """

    def __init__(self, folder: Path, world_size: int = 2) -> None:
        self.folder = folder
        self.world_size = world_size
        self.processes: list = []
        self.starts = 0

    def run(self, function: Callable, *arguments: Any, timeout: float = 60) -> list[Any]:
        """``function(ranks, *arguments)`` on all ranks; what each returned, in rank order."""
        if not self.processes:
            self._start()
        for tasks in self.tasks:
            tasks.put((function, arguments))
        deadline = time.monotonic() + timeout
        values: dict[int, Any] = {}
        while len(values) < self.world_size:
            try:
                rank, value, error = self.answers.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                self.close()
                missing = sorted({*range(self.world_size)} - {*values})
                pytest.fail(f"after {timeout} s ranks {missing} still hang")
            if error is not None:
                self.close()
                pytest.fail(f"rank {rank} raised\n{error}")
            values[rank] = value
        return [values[rank] for rank in range(self.world_size)]

    def _start(self) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["train"])  # once for all ranks
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
        self._wait_for_ranks()

    def _wait_for_ranks(self) -> None:
        for _ in self.processes:
            self.answers.get(timeout=120)  # importing torch in each on a busy machine

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []


def _serve(rank: int, world_size: int, meeting: Path, tasks, answers) -> None:
    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size
    )
    ranks = Ranks(rank, world_size, torch.device("cpu"))
    answers.put((rank, None, None))
    while True:
        function, arguments = tasks.get()
        try:
            answers.put((rank, function(ranks, *arguments), None))
        except BaseException:
            answers.put((rank, None, traceback.format_exc()))
