"""Cost of a batch on this machine, fitted to a few timed batches: ``loader.cost=fitted``.

    python -m training.sidings.fitted model=dds_tiny    # before training, with its settings

B blocks, T slots.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bload import (
    Batch,
    Block,
    BlockDataset,
    Cost,
    InputError,
    Step,
    StepList,
    collate_blocks,
    fit_cost,
    natural_t_max,
)
from bload.errors import differences
from datasets.action_genome import VideoSource
from datasets.build import build_source
from datasets.files import reading, write_whole
from training.build import Training, build_network, build_training, choose_kernels
from training.config import TrainJob
from training.folder import read_object
from training.ranks import Ranks, join_ranks
from training.step import backward

SHAPES = [(rows, part) for part in (1, 2, 4) for rows in (1, 2, 4)]
"""Blocks of a timed batch, and the divisor of `T_max` that gives their slots."""
FILLS = (1.0, 0.4)
"""Shares of a block's slots that hold a frame."""
REPEATS = 3
"""Repetitions of each timing; the shortest counts."""


def read_cost(cfg: TrainJob) -> Cost:
    """Read the cost that this module's command has written for such a network.

    Raises:
        InputError: there is none, or it was timed for another network.
    """
    path = cost_file(cfg)
    command = "python -m training.sidings.fitted, with the same settings, times it"
    if not path.exists():
        raise InputError(f"loader.cost=fitted reads {path}, which is not there; {command}")
    with reading(path, command):
        saved = read_object(path)
        if changes := differences(saved["timed"], timed_settings(cfg)):
            raise InputError(f"{path} was timed for another network: {changes}; {command}")
        return Cost(**saved["cost"])


def cost_file(cfg: TrainJob) -> Path:
    return Path(cfg.run.root, "cost.json")


def timed_settings(cfg: TrainJob) -> dict[str, Any]:
    """Return the settings on which the cost depends."""
    model = {f"model.{key}": value for key, value in asdict(cfg.model).items() if key != "weights"}
    size = {"dataset.frame_size": [*cfg.dataset.frame_size]}
    return {**model, **size, "train.amp": cfg.train.amp, "train.device": cfg.train.device}


def fit(cfg: TrainJob, source: VideoSource, ranks: Ranks) -> Cost:
    """Fit the cost, in milliseconds, to forward and backward passes of several shapes of batch."""
    t_max = cfg.loader.t_max or natural_t_max(source.lengths, cfg.loader.name)
    sizes = [(rows, max(1, t_max // part)) for rows, part in SHAPES]
    sizes = [(rows, t) for rows, t in sizes if rows * t <= cfg.train.batch_slots]
    choose_kernels(cfg.train.amp, cfg.train.deterministic, one_shape=False)
    model = build_network(cfg.model, ranks.device)
    training = build_training(cfg, ranks, model, source)
    work, seconds = [], []
    for batch in random_batches(source, [(*size, fill) for size in sizes for fill in FILLS]):
        work.append(cost_amounts(batch))
        seconds.append(time_batch(training, batch))
    return fit_cost(work, seconds)


def random_batches(source: VideoSource, shapes: list[tuple[int, int, float]]) -> Iterator[Batch]:
    """Yield a batch of random videos for each shape: blocks, slots of a block, share filled."""
    rng, dataset = np.random.default_rng(0), BlockDataset(source)
    for rows, slots, fill in shapes:
        blocks = []
        for _ in range(rows):
            order = rng.permutation(len(source.lengths))
            ends = np.minimum(np.cumsum(source.lengths[order]), max(1, round(fill * slots)))
            length = np.diff(ends, prepend=0)
            positions = np.flatnonzero(length)
            blocks.append(
                Block(0, slots, order[positions], np.zeros_like(positions), length[positions])
            )
        frames = sum(int(block.length.sum()) for block in blocks)
        yield collate_blocks(dataset.__getitems__(StepList(blocks, Step(0, frames))))


def cost_amounts(batch: Batch) -> tuple[float, ...]:
    """Return the amounts for a `Cost`: slots, frames, pairs, walked slots, launches."""
    slots, frames = batch.valid_BT.numel(), int(batch.valid_BT.sum())
    return slots, frames, int(batch.pairs), batch.valid_BT.shape[1], 1


def time_batch(training: Training, batch: Batch) -> float:
    """Return the seconds of a forward and backward pass, the shortest of a few."""
    times = []
    for _ in range(1 + REPEATS):  # the first one allocates
        _synchronise(training)
        started_at = time.perf_counter()
        backward(training, [batch], 0)
        _synchronise(training)
        times.append(time.perf_counter() - started_at)
    return min(times[1:])


def _synchronise(training: Training) -> None:
    if training.ranks.device.type == "cuda":
        torch.cuda.synchronize(training.ranks.device)


def main(overrides: Sequence[str]) -> None:
    """Time a network, write its cost for ``loader.cost=fitted``, and print it as numbers."""
    from training.compose import compose_job  # here, as the GPU benchmark has no Hydra

    cfg = compose_job("train", overrides)
    ranks = join_ranks(cfg.train.device, cfg.train.timeout)
    cost = fit(cfg, build_source(cfg.dataset, "train", progress=True), ranks)
    path = cost_file(cfg)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"timed": timed_settings(cfg), "cost": asdict(cost)}
    write_whole(path, json.dumps(content, indent=2) + "\n")
    print(f"{path}: loader.cost=fitted, or loader.cost={[*astuple(cost)]}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"error: {error}")
