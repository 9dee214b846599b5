"""The cost of a model: parameters, FLOPs, memory. Takes the overrides of `train.py`.

python -m experiments.model_summary
python -m experiments.model_summary model=dds dataset.frame_size=[480,640] train.batch_frames=188
"""

import argparse
from collections.abc import Sequence

import torch
from tabulate import tabulate

from experiments.commands import wrong_input_in_one_sentence
from models.cost import GIB, PER_FRAME, Cost, measure_cost
from models.recompute import CHUNK
from training.config import TrainJob, compose_job, register
from training.ranks import autocast, join_ranks

MIB = 2**20
LONGEST = 94
"""Slots of a block where the config leaves them to the data: Action Genome's longest video."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.model_summary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="as for train.py: group=choice or key=value")
    overrides = parser.parse_args(arguments).overrides
    register()
    with wrong_input_in_one_sentence():
        print(summary(compose_job("train", overrides)))


def summary(cfg: TrainJob) -> str:
    """The cost of the model of a job, on its device and in its precision, as text."""
    height, width = cfg.dataset.frame_size
    frames = cfg.train.batch_frames
    slots = min(frames, cfg.loader.t_max or LONGEST)
    ranks = join_ranks(cfg.train.device, cfg.train.timeout)
    precision = autocast(cfg.train.amp, ranks.device)
    cost = measure_cost(cfg.model, (height, width), slots, precision, ranks.device)
    with precision:
        half = torch.is_autocast_enabled(ranks.device.type)
    where = f"{ranks.device.type} in {'bf16 (autocast)' if half else 'float32'}"
    title = f"{cfg.model.name}, frames of {height} x {width}, on {where}, blocks of {slots}"
    return f"{title}\n\n{format_cost(cost, frames)}"


def format_cost(cost: Cost, frames: int) -> str:
    """Two tables: a line per part, and a rank's step of so many frames."""
    parts = list(dict.fromkeys((*cost.flops, *cost.parameters, *cost.kept)))
    rows = [
        (
            part,
            cost.parameters.get(part, 0),
            cost.trainable.get(part, 0),
            cost.flops.get(part, 0) / 1e9,
            cost.kept[part].per_frame / MIB if part in cost.kept else 0.0,
        )
        for part in parts
    ]
    total = ("total", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    head = ("part", "parameters", "trainable", "GFLOP per frame", "MiB kept per frame")
    by_part = tabulate(
        [*rows, total], head, "plain", floatfmt=("", "", "", ",.3f", ",.2f"), intfmt=","
    )
    fixed = [(cost.parameter_bytes + cost.optimiser_bytes) / GIB] * 2
    activations = [cost.activations(frames, share) / GIB for share in (0, 1)]
    step = [
        ("weights, gradients, AdamW", *fixed),
        ("activations at most", *activations),
        ("sum", *map(sum, zip(fixed, activations, strict=True))),
    ]
    ways = (f"a step of {frames} frames, GiB", "checkpoint=none", "backbone")
    return (
        f"{by_part}\n\n"
        "GFLOP: a forward pass in training, a multiply-add counts as two; the backward pass takes "
        "about twice as many more.\n"
        "kept: activations that the backward pass needs.\n\n"
        f"{tabulate(step, ways, 'plain', floatfmt=',.2f')}\n\n"
        f"model.checkpoint=backbone recomputes {', '.join(PER_FRAME)}, {CHUNK} frames at a time. "
        "Temporaries and losses come on top."
    )


if __name__ == "__main__":
    main()
