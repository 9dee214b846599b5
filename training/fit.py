"""Cost of a batch on the machine that trains, fitted to a few timed batches.

B blocks, T slots.
"""

import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import torch

from bload import Batch, BlockDataset, Cost, collate_blocks, fit_cost, natural_t_max
from bload.batch.step import Step, StepList
from bload.packing.plan import Block
from datasets.action_genome import VideoSource
from datasets.build import build_letterbox
from datasets.machine import reading
from models import build_criterion
from training.build import Training, build_network, build_training, choose_kernels
from training.config import TrainJob
from training.folder import read_object
from training.ranks import Ranks
from training.step import backward

SHAPES = [(rows, part) for part in (1, 2, 4) for rows in (1, 2, 4)]
"""Blocks of a timed batch, and the divisor of `T_max` that gives their slots."""
FILLS = (1.0, 0.4)
"""Shares of a block's slots that hold a frame."""
REPEATS = 3
"""Repetitions of each timing; the shortest counts."""


def find_cost(cfg: TrainJob, source: VideoSource, ranks: Ranks, saved: Path | None) -> Cost:
    """Return the cost of ``loader.cost=fitted``: the run's own, or one timed on all ranks.

    Args:
        saved: file of the run's cost, read by rank 0, so that a resumed run keeps its plan.
    """
    timed: tuple[float, ...] = ()
    with ranks.together():
        if ranks.is_first and saved and saved.exists() and cfg.run.resume != "never":
            with reading(saved, "remove it, and the cost is timed again"):
                timed = astuple(Cost(**read_object(saved)))
    if timed := ranks.gather(timed)[0]:  # others may see another folder
        return Cost(*timed)
    found = torch.tensor(astuple(fit(cfg, source, ranks)), dtype=torch.float64)
    return Cost(*(ranks.sum(found) / ranks.world_size).tolist())


def fit(cfg: TrainJob, source: VideoSource, ranks: Ranks) -> Cost:
    """Fit the cost, in milliseconds, to forward and backward passes of several shapes of batch."""
    t_max = cfg.loader.t_max or natural_t_max(source.lengths, cfg.loader.name)
    sizes = [(rows, max(1, t_max // part)) for rows, part in SHAPES]
    sizes = [(rows, t) for rows, t in sizes if rows * t <= cfg.train.batch_slots]
    training = train_apart(cfg, source, replace(ranks, rank=0, world_size=1))
    work, seconds = [], []
    for batch in batches_of(source, [(*size, fill) for size in sizes for fill in FILLS]):
        work.append(work_of(batch))
        seconds.append(time_batch(training, batch))
    return fit_cost(work, seconds)


def batches_of(source: VideoSource, shapes: list[tuple[int, int, float]]) -> Iterator[Batch]:
    """Yield a batch of random videos for each shape: blocks, slots of a block, share filled."""
    rng, read = np.random.default_rng(0), BlockDataset(source)
    for rows, slots, fill in shapes:
        blocks = []
        for _ in range(rows):
            drawn = rng.permutation(len(source.lengths))
            ends = np.minimum(np.cumsum(source.lengths[drawn]), max(1, round(fill * slots)))
            length = np.diff(ends, prepend=0)
            some = np.flatnonzero(length)
            blocks.append(Block(0, slots, drawn[some], np.zeros_like(some), length[some]))
        frames = sum(int(block.length.sum()) for block in blocks)
        yield collate_blocks(read.__getitems__(StepList(blocks, Step(0, frames))))


def work_of(batch: Batch) -> tuple[float, ...]:
    """Return the amounts for a `Cost`: slots, frames, pairs, walked slots, launches."""
    length_S = batch.segments.length_S.double()
    slots, frames = batch.valid_BT.numel(), int(batch.valid_BT.sum())
    return slots, frames, float((length_S**2).sum()), batch.valid_BT.shape[1], 1


def time_batch(training: Training, batch: Batch) -> float:
    """Return the seconds of a forward and backward pass, the shortest of a few."""
    found = []
    for _ in range(1 + REPEATS):  # the first one allocates
        _wait(training)
        began = time.perf_counter()
        backward(training, [batch], 0)
        _wait(training)
        found.append(time.perf_counter() - began)
    return min(found[1:])


def _wait(training: Training) -> None:
    if training.ranks.device.type == "cuda":
        torch.cuda.synchronize(training.ranks.device)


def train_apart(
    cfg: TrainJob, source: VideoSource, ranks: Ranks, one_shape: bool = False
) -> Training:
    """Build a separate network and all that trains it; no run keeps it.

    Args:
        one_shape: True if all batches have one shape, see `choose_kernels`.
    """
    choose_kernels(cfg.train.amp, cfg.train.deterministic, one_shape)
    model = build_network(cfg, ranks.device)
    letterbox = build_letterbox(source, cfg.dataset.augment, cfg.train.seed)
    return build_training(cfg.train, ranks, model, build_criterion(cfg.loss), letterbox)
