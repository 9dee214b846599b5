"""Where the time of a training step goes, by `torch.profiler`."""

from collections import Counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from experiments.benchmarks.part import Part, Rows
from experiments.benchmarks.training_step import build_way
from training.config import register
from training.step import train_step

STEPS = 20
WITHIN = {
    "reading": "reading",
    "Optimizer.step": "optimiser",
}
"""Words in the name of a call, and the kind of all calls within it."""
KINDS = {
    "convolutions": ("convolution",),
    "matrix products": ("mm", "linear", "matmul"),
    "norms": ("norm",),
    "attention": ("attention", "softmax"),
    "copies": ("copy", "cat", "clone", "index", "contiguous"),
}
"""Kinds of other calls, and words in their names."""
OTHER = "the rest: sums, activations, gates, views"


def kind_of(event: Any) -> str:
    """The kind of a call: that of one that it is within, or by its name."""
    outer = event
    while outer is not None:
        for word, kind in WITHIN.items():
            if word in outer.name:
                return kind
        outer = outer.cpu_parent
    named = (kind for kind, words in KINDS.items() if any(word in event.name for word in words))
    return next(named, OTHER)


def measure(quick: bool) -> Rows:
    """The share of each kind in the time of all calls, the largest first."""
    torch.set_num_threads(1)
    register()
    way = build_way()
    steps = 1 if quick else STEPS
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for step in range(steps):
            with record_function("reading"):
                batches = next(way.steps)
            train_step(way.training, batches, 0, step, steps)
    seconds: Counter[str] = Counter()
    for event in found.events() or []:
        seconds[kind_of(event)] += event.self_cpu_time_total
    total = sum(seconds.values())
    return [[kind, 100 * spent / total] for kind, spent in seconds.most_common()]


PROFILE = Part(("calls", "share of the time, %"), ("", ".1f"), measure)
