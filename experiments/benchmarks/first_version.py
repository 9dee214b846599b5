"""Training steps beside those of the first version, c2e38f9, which has a process of its own.

Both have the same blocks in memory, AdamW and one thread, and take turns. Operator calls are those
of a forward and a backward pass. The losses are compared in the first steps, before rounding has
grown with training.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bload import InputError
from experiments.benchmarks.part import Part, Rows
from experiments.benchmarks.training_step import build_way, calls_of_step
from experiments.turns import Way
from training.config import register
from training.provenance import REPOSITORY
from training.step import train_step

COMMIT = "c2e38f9"
ROUNDS, STEPS = 8, 5
CONFIG = ["train.muon_lr=null", "train.warmup_epochs=1", "dataset.cache=null"]
"""The recipe of the first version."""
PLAN = ("sequence", "first", "length", "offsets")


class FirstVersion:
    """The process of the first version, for one network on the blocks of a plan."""

    def __init__(self, folder: str, way: Way) -> None:
        plan = Path(folder, f"{way.cfg.model.temporal}.npz")
        np.savez(plan, **{name: getattr(way.loader.plan, name) for name in PLAN})
        root = Path(way.cfg.dataset.root).absolute()
        script = Path(__file__).with_name("first_version_steps.py")
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(script), str(plan)),
                *(f"model.temporal={way.cfg.model.temporal}", f"dataset.root={root}"),
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> Any:
        """Return the answer to a line, see `first_version_steps`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise InputError(f"the process of {COMMIT} ended with status {self.process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        """Let the process end, and wait for it."""
        self.process.communicate()


def unpack_commit(folder: str) -> None:
    """Put the files of the first version into a folder.

    Raises:
        InputError: this checkout does not have its commit.
    """
    archive = ["git", "archive", COMMIT, "bload", "datasets", "models", "configs"]
    made = subprocess.run(archive, cwd=REPOSITORY, capture_output=True)
    if made.returncode:
        raise InputError(
            f"commit {COMMIT}, to compare with, is not in this checkout: fetch the whole history "
            "(git fetch --unshallow) or leave the part out (--only)"
        )
    with tarfile.open(fileobj=BytesIO(made.stdout)) as files:
        files.extractall(folder, filter="data")


def take(way: Way, count: int) -> dict[str, Any]:
    """Take so many steps on blocks that are in memory; what the first version's answers hold."""
    ready, losses = list(islice(way.steps, count)), []
    first, steps = way.loader.step - count, way.loader.steps
    began = time.perf_counter()
    for step, batches in enumerate(ready, first):
        losses.append(train_step(way.training, batches, 0, step, steps).losses["loss"])
    seconds = time.perf_counter() - began
    return {"frames": sum(b[0].step_frames for b in ready), "seconds": seconds, "losses": losses}


def measure(quick: bool) -> Rows:
    """A row for each memory and version."""
    torch.set_num_threads(1)
    register()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        unpack_commit(folder)
        for temporal in ("dds", "gru"):
            way = build_way(f"model.temporal={temporal}", *CONFIG)
            before = FirstVersion(folder, way)
            try:
                rows += _compare(temporal, before, way, quick)
            finally:
                before.end()
    return rows


def _compare(temporal: str, before: FirstVersion, way: Way, quick: bool) -> Rows:
    old, new = [before.ask(f"take {STEPS}")], [take(way, STEPS)]
    both = zip(new[0]["losses"], old[0]["losses"], strict=True)
    apart = max(abs(one / other - 1) for one, other in both)
    calls = before.ask("calls"), calls_of_step(way, next(way.steps))
    for _ in range(1 if quick else ROUNDS):
        old.append(before.ask(f"take {STEPS}"))
        new.append(take(way, STEPS))
    rates = [[one["frames"] / one["seconds"] for one in taken[1:]] for taken in (old, new)]
    ratio = median(two / one for one, two in zip(*rates, strict=True))
    return [
        [temporal, COMMIT, median(rates[0]), 1.0, calls[0], 1.0, None],
        [temporal, "now", median(rates[1]), ratio, calls[1], calls[1] / calls[0], apart],
    ]


FIRST_VERSION = Part(
    ("memory", "version", "frames/s", "ratio", "operator calls", "ratio", "losses differ by"),
    ("", "", ",.0f", ".2f", ",", ".2f", ".0e"),
    measure,
)
