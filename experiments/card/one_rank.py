"""A step under DDP with one rank: its gradients are those without."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from bload import Batch
from experiments.card.bench import Bench
from experiments.card.record import Row, Unit
from experiments.card.scale import Subject
from training.build import Training, in_parallel
from training.step import backward, seed_step

TOLERANCE = 1e-3
"""Most by which gradients may differ, as a share of their norm. Kernels may add up in any order."""


def units(bench: Bench) -> list[Unit]:
    """One for each network."""
    return [(one.model, partial(rank_rows, bench, one)) for one in bench.scale.subjects]


def rank_rows(bench: Bench, subject: Subject) -> list[Row]:
    """One row: how far two steps without DDP differ, and one with it."""
    batches = next(bench.loader(subject).by_step())
    plain, again = (gradients(bench.training(subject, "0.5"), batches) for _ in range(2))
    with one_rank(bench.device) as backend:
        training = bench.training(subject, "0.5")
        parallel = in_parallel(training.model, training.ranks)
        under_ddp = gradients(replace(training, parallel=parallel), batches)
    row: Row = {
        "model": subject.model,
        "backend": backend,
        "equal": bool((plain == under_ddp).all()),
        "difference": relative(plain, under_ddp),
        "without": relative(plain, again),
    }
    if not row["difference"] <= TOLERANCE:
        row["problem"] = (
            f"the gradients under DDP differ by {row['difference']:.1e} of their norm, "
            f"more than {TOLERANCE:g}"
        )
    return [row]


@contextmanager
def one_rank(device: torch.device) -> Iterator[str]:
    """A process group of this process alone; yields the name of its backend."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        store = dist.FileStore(str(Path(folder, "meeting")), 1)
        dist.init_process_group(backend, store=store, rank=0, world_size=1)
        try:
            yield backend
        finally:
            dist.destroy_process_group()


def gradients(training: Training, batches: list[Batch]) -> Tensor:
    """All gradients of a step, clipped, as one vector in float64."""
    seed_step(training.cfg.seed, 0, 0, 0)
    backward(training, batches, 0)
    found = [p.grad for p in training.model.parameters() if p.grad is not None]
    return torch.cat([gradient.flatten() for gradient in found]).double()


def relative(one: Tensor, other: Tensor) -> float:
    """The norm of the difference, as a share of the first one's norm."""
    return float((one - other).norm() / one.norm())
