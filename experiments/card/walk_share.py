"""How much of a training step the temporal parts take, which walk through time.

They go forward and backward by themselves, on what the spatial layers make of the batch of a step;
with `model.walk` at each of its values.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor

from bload import Batch
from experiments.card.bench import Bench
from experiments.card.record import Row, Unit
from experiments.card.scale import RECOMPUTED, Subject
from models.branch import through_time
from models.exchange import HERE
from models.padding import take
from models.temporal import WALKED
from training.build import Training
from training.ranks import autocast
from training.step import train_step

WALKS = ("slots", "segments")
"""Values of `model.walk`."""


def units(bench: Bench) -> list[Unit]:
    """One for each network and way to walk."""
    return [
        (f"{subject.model}, walk {walk}", partial(share_rows, bench, subject, walk))
        for subject in bench.scale.subjects
        for walk in WALKS
    ]


def share_rows(bench: Bench, subject: Subject, walk: str) -> list[Row]:
    """One row: milliseconds of a step and of its walk."""
    training = bench.training(subject, RECOMPUTED[1])
    training.model.walk = walk
    batches = next(bench.loader(subject).by_step())
    inputs = walked_inputs(training, batches[0])
    step_s = timed(bench, lambda: train_step(training, batches, 0, 0, 1))
    walk_s = timed(bench, lambda: walk_once(training, *inputs))
    row: Row = {"model": subject.model, "walk": walk}
    found = {"step_ms": 1000 * step_s, "walk_ms": 1000 * walk_s, "share": walk_s / step_s}
    return [row | found | {"slots": batches[0].valid_BT.shape[1]}]


@torch.no_grad()
def walked_inputs(training: Training, batch: Batch) -> tuple[list[Tensor], Tensor]:
    """What the temporal part of each branch is given for a batch, ``(B, T, N, D)``; and starts."""
    model = training.model
    batch, extent_BT2 = training.letterbox(batch, training.ranks.device)
    extent_I2 = None if extent_BT2 is None else take(extent_BT2, None)
    block = batch.start_BT.shape[0], batch.start_BT.shape[1]
    with autocast(training.cfg.amp, training.ranks.device):
        tokens = model.encode(take(batch.frames_BT, None), extent_I2)
        branches = model.object_branch, model.relation_branch
        given = [branch.spatial(tokens, block, None, None, HERE)[1] for branch in branches]
    return given, batch.start_BT


def walk_once(training: Training, given: Sequence[Tensor], start_BT: Tensor) -> list[Tensor]:
    """Go forward and backward through the temporal parts; their outputs ``(L, B, T, N, D)``."""
    model = training.model
    branches = model.object_branch, model.relation_branch
    together = model.walk == "segments" and model.temporal in WALKED
    inputs = [one.detach().requires_grad_() for one in given]
    with autocast(training.cfg.amp, training.ranks.device):
        outputs, _ = through_time(branches, inputs, start_BT, together=together)
    torch.stack([output.float().sum() for output in outputs]).sum().backward()
    model.zero_grad(set_to_none=True)
    return [output.detach() for output in outputs]


def timed(bench: Bench, work: Callable[[], object]) -> float:
    """Seconds of some work, the median of a few after one that warms up."""
    found = []
    for _ in range(1 + bench.scale.rounds):
        bench.wait()
        began = time.perf_counter()
        work()
        bench.wait()
        found.append(time.perf_counter() - began)
    return median(found[1:])
