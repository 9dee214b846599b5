"""Time of each temporal part on one block, forward and backward.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed   # an idle CPU, minutes
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed --model dds_tiny
    python -m experiments.benchmarks.temporal_speed --device cuda

Each part stands alone, at the sizes that `configs/model/` gives it, on one block (B = 1) of random
embeddings. The starts are those of a full block of Action Genome videos, packed by bload_exact with
94 or 1,024 slots. A repeat is forward, a sum and backward; the median is shown, with the smallest
and largest. `over none` is the cost of the memory beside the work on single frames, which all parts
share. Walking loses its time to the start of many small kernels: nearly all of it at the size of
dds_tiny or on a GPU. At the size of dds on one CPU core the work on single frames fills most of
the time of every part; there the long block has 188 slots, as 1,024 would take most of a minute per
repeat.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from omegaconf import OmegaConf
from tabulate import tabulate
from torch import Tensor, nn

from bload import action_genome_lengths, make_plan
from models.temporal import PARTS, build_temporal
from models.transformer import LayerSizes

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "model"
SLOTS = (94, 1_024)
CPU_SLOTS = {"dds_tiny": SLOTS, "dds": (94, 188)}


def packed_starts(slots: int) -> Tensor:
    """The start table ``(1, T)`` of the first block without padding."""
    plan = make_plan(action_genome_lengths(), "bload_exact", t_max=slots)
    full = next(index for index in range(plan.blocks) if plan.block(index).frames == slots)
    start_BT = torch.zeros(1, slots, dtype=torch.bool)
    start_BT[0, plan.block(full).starts] = True
    return start_BT


def seconds(part: nn.Module, inputs: tuple[Tensor, Tensor, Tensor]) -> float:
    """Seconds of one forward and backward pass."""
    part.zero_grad(set_to_none=True)
    synchronise(inputs[0].device)
    started = time.perf_counter()
    output_LBTND, _ = part(*inputs)
    output_LBTND.sum().backward()
    synchronise(inputs[0].device)
    return time.perf_counter() - started


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(model: str, slots: int, device: torch.device, repeats: int) -> None:
    """Print a table of all parts at one size."""
    cfg = OmegaConf.load(CONFIGS / f"{model}.yaml")
    sizes = LayerSizes(
        width=cfg.width,
        heads=cfg.heads,
        feedforward=cfg.feedforward,
        dropout=cfg.dropout,
        norm_first=cfg.norm_first,
    )
    torch.manual_seed(0)
    start_BT = packed_starts(slots)
    embeddings_BTND = torch.randn(1, slots, cfg.queries, cfg.width, device=device)
    position_ND = torch.randn(cfg.queries, cfg.width, device=device)
    inputs = (embeddings_BTND.requires_grad_(), position_ND, start_BT.to(device))
    parts = {name: build_temporal(name, cfg.temporal_layers, **sizes).to(device) for name in PARTS}
    for part in parts.values():
        seconds(part, inputs)  # the first is slower
    # Part after part in every repeat, so that a busy minute of the machine meets them all.
    rounds = [{name: seconds(part, inputs) for name, part in parts.items()} for _ in range(repeats)]
    taken = {name: [1e3 * times[name] for times in rounds] for name in parts}
    median = {name: statistics.median(times) for name, times in taken.items()}
    print(
        f"\n{model}: {cfg.temporal_layers} layers, width {cfg.width}, {cfg.queries} queries, "
        f"T = {slots}, {int(start_BT.sum())} videos, {repeats} repeats"
    )
    rows = [
        (
            name,
            *(median[name], min(times), max(times)),
            *(median[name] / median["dds"], median[name] - median["none"]),
        )
        for name, times in taken.items()
    ]
    head = ("part", "ms", "least", "most", "of dds", "over none")
    print(tabulate(rows, head, "plain", floatfmt=("", ".1f", ".1f", ".1f", ".3f", ".1f")))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the temporal parts, forward and backward.")
    parser.add_argument("--device", type=torch.device, default="cpu")
    parser.add_argument("--model", choices=tuple(CPU_SLOTS), help="one size instead of both")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    device = arguments.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    for model in (arguments.model,) if arguments.model else CPU_SLOTS:
        for slots in CPU_SLOTS[model] if device.type == "cpu" else SLOTS:
            measure(model, slots, device, arguments.repeats)


if __name__ == "__main__":
    main()
