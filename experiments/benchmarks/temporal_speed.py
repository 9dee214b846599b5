"""How long each temporal part takes on one block, forward and backward.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed   # an idle CPU, minutes
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed --model dds_tiny
    python -m experiments.benchmarks.temporal_speed --device cuda

Each part stands alone, at the sizes that `configs/model/` gives it, on one block (B = 1) of random
embeddings. The starts are those of a full block of Action Genome videos, packed by bload_exact with
94 or 1,024 slots. A repeat is forward, a sum and backward; the median is shown, with the smallest
and largest. `over none` is what the memory costs beside the work on single frames, which all parts
share. What walking loses is the start of many small kernels: nearly everything at the size of
dds_tiny or on a GPU. At the size of dds on one CPU core the work on single frames fills most of
the time of every part; there the long block has 188 slots, as 1,024 would take most of a minute a
repeat.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from bload import action_genome_lengths, make_plan
from models.temporal import TEMPORAL, build_temporal

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
    config = OmegaConf.load(CONFIGS / f"{model}.yaml").model
    keys = ("width", "heads", "feedforward", "dropout", "norm_first")
    sizes = {key: config[key] for key in keys} | {"layers": config.temporal_layers}
    torch.manual_seed(0)
    start_BT = packed_starts(slots)
    embeddings_BTND = torch.randn(1, slots, config.queries, config.width, device=device)
    position_ND = torch.randn(config.queries, config.width, device=device)
    inputs = (embeddings_BTND.requires_grad_(), position_ND, start_BT.to(device))
    parts = {name: build_temporal(name, **sizes).to(device) for name in TEMPORAL}
    for part in parts.values():
        seconds(part, inputs)  # the first is slower
    # Part after part in every repeat, so that a busy minute of the machine meets them all.
    rounds = [{name: seconds(part, inputs) for name, part in parts.items()} for _ in range(repeats)]
    taken = {name: [taken[name] for taken in rounds] for name in parts}
    median = {name: 1e3 * statistics.median(times) for name, times in taken.items()}
    print(
        f"\n{model}: {config.temporal_layers} layers, width {config.width}, {config.queries} "
        f"queries, T = {slots}, {int(start_BT.sum())} videos, {repeats} repeats"
    )
    print(f"{'part':<10}{'ms':>10}{'least':>10}{'most':>10}{'of dds':>10}{'over none':>12}")
    for name, times in taken.items():
        print(
            f"{name:<10}{median[name]:>10.1f}{1e3 * min(times):>10.1f}{1e3 * max(times):>10.1f}"
            f"{median[name] / median['dds']:>10.3f}{median[name] - median['none']:>12.1f}",
            flush=True,
        )


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
