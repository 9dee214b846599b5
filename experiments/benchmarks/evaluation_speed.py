"""Frames a second of evaluation, beside training, and of the measure alone."""

import torch

from datasets.build import build_source
from experiments.benchmarks.part import Part, Rows
from experiments.benchmarks.recall_speed import PAIRS, time_measure
from experiments.benchmarks.training_step import build_way
from experiments.turns import ALONE
from training.config import register
from training.evaluation import evaluate

ROUNDS = 4


def measure(quick: bool) -> Rows:
    """Training and evaluation take turns; the measure has the frames of Action Genome's test."""
    torch.set_num_threads(1)
    register()
    way = build_way()
    source = build_source(way.cfg.dataset, "test", progress=True)
    trained, spent, rates = 0, 0.0, []
    for _ in range(1 if quick else ROUNDS):
        taken = way.take(10)
        trained += sum(step.frames for step in taken)
        spent += sum(step.seconds for step in taken)
        slots = way.cfg.train.batch_frames
        figures = evaluate(way.training.model, source, ALONE, batch_frames=slots)
        rates.append(figures["frames_per_second"])
    training = trained / spent
    evaluation = len(rates) / sum(1 / rate for rate in rates)
    frames = 2_000 if quick else 54_371
    alone = frames / time_measure(frames)[0]
    return [
        ["training, dds_tiny", training, 1.0],
        ["evaluation, dds_tiny", evaluation, evaluation / training],
        [f"the measure alone, {PAIRS} pairs a frame", alone, None],
    ]


EVALUATION = Part(("", "frames/s", "of training"), ("", ",.0f", ".2f"), measure)
