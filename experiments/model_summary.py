"""What a model costs: parameters, FLOPs, memory. Takes the overrides of `train.py`.

python -m experiments.model_summary
python -m experiments.model_summary model=dds dataset.frame_size=[480,640] train.batch_frames=188
"""

import argparse

import torch
from hydra import compose, initialize_config_dir

from experiments.cli import CONFIGS, check_overrides, told
from experiments.config import NOT_COMPUTED, check_values, plain, register, without
from experiments.ranks import autocast, start_ranks
from models.cost import PER_FRAME, Cost, measure_cost
from models.recompute import CHUNK

GIB, MIB = 2**30, 2**20
LONGEST = 94
"""Slots of a block where the config leaves them to the data: Action Genome's longest video."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.model_summary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="as for train.py: group=choice or key=value")
    overrides = parser.parse_args().overrides
    register()
    with told():
        check_overrides("train", overrides)
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            config = plain(compose("train", overrides))
        check_values(config)
    job = config["train"]
    frame_size = tuple(config["dataset"]["frame_size"])
    with told(), start_ranks(job["device"]) as ranks:
        precision = autocast(job["amp"], ranks.device)
        sizes = without(config["model"], "name", *NOT_COMPUTED)
        slots = min(job["batch_frames"], config["loader"]["t_max"] or LONGEST)
        cost = measure_cost(sizes, frame_size, slots, precision, ranks.device)
        with precision:
            half = torch.is_autocast_enabled(ranks.device.type)
    print(
        f"{config['model']['name']}, frames of {frame_size[0]} x {frame_size[1]}, on "
        f"{ranks.device.type} in {'bf16 (autocast)' if half else 'float32'}, blocks of {slots}\n"
    )
    print(format_cost(cost, job["batch_frames"]))


def format_cost(cost: Cost, frames: int) -> str:
    """Two tables: a line a part, and a rank's step of so many frames."""
    parts = list(dict.fromkeys((*cost.flops, *cost.parameters, *cost.kept)))
    rows = [
        (
            part,
            f"{cost.parameters.get(part, 0):,}",
            f"{cost.trainable.get(part, 0):,}",
            f"{cost.flops.get(part, 0) / 1e9:,.3f}",
            f"{cost.kept[part].a_frame / MIB if part in cost.kept else 0:,.2f}",
        )
        for part in parts
    ]
    total = (
        "total",
        f"{sum(cost.parameters.values()):,}",
        f"{sum(cost.trainable.values()):,}",
        f"{sum(cost.flops.values()) / 1e9:,.3f}",
        f"{sum(kept.a_frame for kept in cost.kept.values()) / MIB:,.2f}",
    )
    head = ("part", "parameters", "trainable", "GFLOP a frame", "MiB kept a frame")
    ways = (False, True)
    fixed = cost.parameter_bytes + cost.optimiser_bytes
    step = [
        ("weights, gradients, AdamW", *(f"{fixed / GIB:,.2f}" for _ in ways)),
        ("activations at most", *(f"{cost.activations(frames, way) / GIB:,.2f}" for way in ways)),
        ("sum", *(f"{(fixed + cost.activations(frames, way)) / GIB:,.2f}" for way in ways)),
    ]
    return "\n".join(
        (
            table([head, *rows, total]),
            "",
            "GFLOP: a forward pass in training, a multiply-add counts as two; the backward pass "
            "takes about twice as many more.",
            "kept: activations that the backward pass needs.",
            "",
            table([(f"a step of {frames} frames, GiB", "checkpoint=none", "backbone"), *step]),
            "",
            f"model.checkpoint=backbone recomputes {', '.join(PER_FRAME)}, {CHUNK} frames at a "
            "time. Temporaries and losses come on top.",
        )
    )


def table(rows: list[tuple[str, ...]]) -> str:
    """Columns, the first one flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


if __name__ == "__main__":
    main()
