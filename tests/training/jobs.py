"""Small jobs for the tests of training: configs, and what a run leaves behind."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._pytree import tree_flatten

import train
from datasets.synthetic.world import World
from training import run as runs
from training.build import open_training
from training.compose import compose_job
from training.config import TrainJob
from training.data import open_data
from training.evaluation import evaluate_all
from training.ranks import Ranks
from training.run import find_run, open_run
from training.step import StepFigures, StepPosition, train_step

REPOSITORY = Path(__file__).parents[2]
PAGELESS = str(Path(__file__).with_name("pageless.py"))
"""train.py whose runs end without a page."""
WORLD = World(8, 4, 1, 2, image_size=32, seed=3, drop_rate=0.1)
"""Lengths 33 45 14 10 22 27 18 5 for training; 35 12 23 53 test, 29 validation, 18 43 final."""

DATA_KNOBS = [f"dataset.{k}={v}" for k, v in WORLD.knobs.items()]
SMALL_MODEL = ["model.width=16", "model.heads=2", "model.feedforward=16", "model.decoder_layers=2"]
TIMES = ("second", "peak_memory", "folder", "results")
"""What figures that differ between two equal runs have in their names."""


def overrides(root: Path, runs: Path, *more: str) -> list[str]:
    """Two epochs of a very small network on one rank's worth of 64 frames, on the small root."""
    return [
        *DATA_KNOBS,
        f"dataset.root={root}",
        f"run.root={runs}",
        "wandb.mode=disabled",
        *SMALL_MODEL,
        "train.epochs=2",
        "train.batch_slots=64",
        "train.workers=0",
        "train.device=cpu",
        *more,
    ]


def one_rank() -> Ranks:
    return Ranks(0, 1, torch.device("cpu"))


def evaluate(*lines: str) -> dict:
    """Evaluate as a command line says, on one CPU; return the figures."""
    return evaluate_all(compose_job("eval", ["device=cpu", "workers=0", *lines]), one_rank())


def only_run(runs: Path) -> Path:
    """The folder of the only run under `runs`."""
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run by name, without logs."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".log"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def metrics(folder: Path) -> list[dict]:
    """The lines of ``metrics.jsonl`` without times, memory and places."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not any(t in k for t in TIMES)} for line in lines]


def checkpoint(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "last.pt", weights_only=True)


def assert_same_state(one: Any, other: Any) -> None:
    """Equal to the bit, in tensors and everything else."""
    (mine, shape), (others, its) = tree_flatten(one), tree_flatten(other)
    assert shape == its
    for leaf, there in zip(mine, others, strict=True):
        assert torch.equal(leaf, there) if isinstance(leaf, torch.Tensor) else leaf == there


def assert_same_run(one: Path, other: Path) -> None:
    """Bit-equal weights, optimisers and averages, of all ranks; the same figures."""
    mine, its = checkpoint(one), checkpoint(other)
    for part in ("model", "optimisers", "average", "rank_states"):
        assert_same_state(mine.get(part), its.get(part))
    assert metrics(one) == metrics(other)


def open_and_leave(cfg: TrainJob) -> None:
    """Open a run as train.py does, and take no step."""
    ranks = one_rank()
    folder, _ = find_run(cfg, ranks)
    with open_run(cfg, ranks, folder):
        pass


def train_until(ranks: Ranks, cfg: TrainJob, at: tuple[int, int] | None = None) -> None:
    """Train to the end, or stop by Ctrl-C just before the step ``(epoch, step)`` is taken."""

    def step_or_stop(training: Any, batches: Any, place: StepPosition, memory: Any) -> Any:
        if (place.epoch, place.step_index) == at:
            raise KeyboardInterrupt
        return train_step(training, batches, place, memory)

    stop = pytest.raises(KeyboardInterrupt) if at else nullcontext()
    with mock.patch.object(runs, "train_step", step_or_stop), stop:
        train.train(cfg, ranks)


def take_steps(cfg: TrainJob, ranks: Ranks) -> Iterator[StepFigures]:
    """Take the steps of all epochs as train.py does, without a folder or an evaluation."""
    data = open_data(cfg, ranks)
    training, loader = open_training(cfg, ranks, data), data.loader
    for epoch in range(cfg.train.epochs):
        loader.set_epoch(epoch)
        for batches in loader.by_step():
            yield train_step(training, batches, StepPosition.after(loader))[0]
