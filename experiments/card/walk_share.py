"""How much of a training step the temporal parts take, which walk through time.

They go forward and backward by themselves, on what the spatial layers make of the batch of a step.
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
from models.padding import take
from models.temporal.layers import in_chunks, walk_orders
from training.build import Training
from training.ranks import autocast
from training.step import train_step


def units(bench: Bench) -> list[Unit]:
    """One for each network."""
    return [
        (subject.model, partial(share_rows, bench, subject)) for subject in bench.scale.subjects
    ]


def share_rows(bench: Bench, subject: Subject) -> list[Row]:
    """One row: milliseconds of a step and of its walk."""
    training = bench.training(subject, RECOMPUTED[1])
    batches = next(bench.loader(subject).by_step())
    inputs = walked_inputs(training, batches[0])
    step_s = timed(bench, lambda: train_step(training, batches, 0, 0, 1))
    walk_s = timed(bench, lambda: walk_once(training, *inputs))
    row: Row = {"model": subject.model}
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
        given = [branch.spatial(tokens)[-1].unflatten(0, block) for branch in branches]
    return given, batch.start_BT


def walk_once(training: Training, given: Sequence[Tensor], start_BT: Tensor) -> list[Tensor]:
    """Go forward and backward through the temporal parts; their outputs ``(L, B, T, N, D)``."""
    model = training.model
    branches = model.object_branch, model.relation_branch
    orders = [order.to(start_BT.device) for order in walk_orders(start_BT, None)]
    inputs = [one.detach().requires_grad_() for one in given]
    with autocast(training.cfg.amp, training.ranks.device):
        outputs = [
            in_chunks(branch.temporal, one, branch.query_embed.weight, start_BT, orders)[0]
            for branch, one in zip(branches, inputs, strict=True)
        ]
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
