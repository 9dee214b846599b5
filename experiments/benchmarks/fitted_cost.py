"""How well ``loader.cost=fitted`` predicts training steps that it has not timed.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.fitted_cost                  # a minute
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.fitted_cost train.batch_frames=752

The law is fitted to batches of 1, 2 and 4 blocks of `T_max`, half and a quarter of it, as training
does; then batches of other shapes, drawn at random, are timed alike. Arguments are overrides of
train.py.
"""

import sys
from dataclasses import asdict, astuple

import numpy as np
import torch
from tabulate import tabulate
from training.sweep import jobs_of

from datasets.build import build_source
from experiments.turns import ALONE
from training.config import register
from training.fit import batches_of, fit, time_batch, train_apart, work_of

UNSEEN = 12
"""Batches that are predicted."""


def main() -> None:
    torch.set_num_threads(1)
    register()
    (job,) = jobs_of(["loader=ragged", "train.batch_frames=376", *sys.argv[1:]])
    cfg = job.config
    source = build_source(cfg.dataset, "train", progress=True)
    cost = fit(cfg, source, ALONE)
    print("milliseconds:", ", ".join(f"{part} {ms:.3f}" for part, ms in asdict(cost).items()))
    training, rows = train_apart(cfg, source, ALONE), []
    shapes = draw_shapes(cfg.train.batch_frames, np.random.default_rng(1))
    for (blocks, slots, _), batch in zip(shapes, batches_of(source, shapes), strict=True):
        predicted = float(np.dot(astuple(cost), work_of(batch)))
        measured = 1000 * time_batch(training, batch)
        frames = int(batch.valid_BT.sum())
        rows.append((blocks, slots, frames, predicted, measured, predicted / measured))
    heads = ("blocks", "slots", "frames", "predicted ms", "measured ms", "ratio")
    print(tabulate(rows, heads, "plain", floatfmt=("", "", "", ".1f", ".1f", ".3f")))
    error = np.abs(np.array([ratio for *_, ratio in rows]) - 1)
    print(f"error: median {np.median(error):.1%}, mean {error.mean():.1%}, most {error.max():.1%}")


def draw_shapes(batch_frames: int, rng: np.random.Generator) -> list[tuple[int, int, float]]:
    """Blocks, their slots and the share that holds a frame, of batches up to so many slots."""
    shapes: list[tuple[int, int, float]] = []
    while len(shapes) < UNSEEN:
        blocks, slots = int(rng.integers(1, 9)), int(rng.integers(16, 95))
        if blocks * slots <= batch_frames:
            shapes.append((blocks, slots, float(rng.uniform(0.4, 1))))
    return shapes


if __name__ == "__main__":
    main()
