"""Training steps with and without ``train.compile``, which needs a C++ compiler."""

import os
import tempfile
from statistics import median

import torch
from torch._dynamo.utils import counters
from training.compiling import check_compiler

from experiments.benchmarks.part import Part, Rows
from experiments.benchmarks.training_step import build_way
from training.config import register

ROUNDS, STEPS = 6, 5
SMALL = ("model.width=16", "model.heads=2", "model.decoder_layers=1", "model.dense=false")


def measure(quick: bool) -> Rows:
    """A row without and one with; nothing that was compiled earlier is used."""
    check_compiler()
    torch.set_num_threads(1)
    register()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        ways = [
            build_way(*(SMALL if quick else ()), f"train.compile={on}") for on in ("false", "true")
        ]
        compiled = _graphs()
        for way in ways:
            way.loader.set_epoch(1)
            way.steps = way.loader.by_step()
        rates: list[list[float]] = [[] for _ in ways]
        for _ in range(1 if quick else ROUNDS):
            for way, found in zip(ways, rates, strict=True):
                taken = way.take(STEPS)
                found.append(sum(step.frames for step in taken) / sum(s.seconds for s in taken))
        later = _graphs() - compiled
    ratio = median(two / one for one, two in zip(*rates, strict=True))
    figures = [
        [way.first[0].seconds, median(found)] for way, found in zip(ways, rates, strict=True)
    ]
    return [["false", *figures[0], 1.0, None, None], ["true", *figures[1], ratio, compiled, later]]


def _graphs() -> int:
    return counters["stats"]["unique_graphs"]


COMPILED = Part(
    ("`train.compile`", "first step, s", "frames/s", "ratio", "graphs", "more in the next epoch"),
    ("", ".2f", ",.0f", ".2f", ",", ","),
    measure,
)
