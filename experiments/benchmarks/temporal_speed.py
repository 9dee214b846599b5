"""Time of each temporal part on one block, forward and backward.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed   # an idle CPU, minutes
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.temporal_speed --model dds_tiny
    python -m experiments.benchmarks.temporal_speed --device cuda

Each part stands alone, at the sizes that `configs/model/` gives it, on one block (B = 1) of random
embeddings. The starts are those of a full block of Action Genome videos, packed by bload_exact. A
step is forward, a sum and backward; the median is shown. `over none` is the cost of the memory
beside the work on single frames, which all parts share. Walking loses its time to the start of many
small kernels: nearly all of it at the size of dds_tiny or on a GPU. At the size of dds on one CPU
core the work on single frames fills most of the time of every part; its long block has 188 slots,
as 1,024 would take most of a minute per step.
"""

import argparse
from pathlib import Path

import torch
from omegaconf import OmegaConf
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from bload import action_genome_lengths, make_plan
from models.temporal import PARTS, build_temporal
from models.transformer import LayerSizes

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "model"
SLOTS = {"dds_tiny": (94, 1_024), "dds": (94, 188)}
SECONDS = 5  # on one part


def packed_starts(slots: int) -> Tensor:
    """The start table ``(1, T)`` of the first block without padding."""
    plan = make_plan(action_genome_lengths(), "bload_exact", t_max=slots)
    full = next(index for index in range(plan.blocks) if plan.block(index).frames == slots)
    start_BT = torch.zeros(1, slots, dtype=torch.bool)
    start_BT[0, plan.block(full).starts] = True
    return start_BT


def step(part: nn.Module, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """One forward and backward pass."""
    part.zero_grad(set_to_none=True)
    part(*inputs)[0].sum().backward()


def measure(model: str, slots: int, device: torch.device) -> None:
    """Print a table of all parts at one size."""
    cfg = OmegaConf.load(CONFIGS / f"{model}.yaml")
    sizes = {key: getattr(cfg, key) for key in LayerSizes.__annotations__}
    torch.manual_seed(0)
    start_BT = packed_starts(slots)
    embeddings_BTND = torch.randn(1, slots, cfg.queries, cfg.width, device=device)
    position_ND = torch.randn(cfg.queries, cfg.width, device=device)
    inputs = (embeddings_BTND.requires_grad_(), position_ND, start_BT.to(device))
    ms = {}
    for name in PARTS:
        part = build_temporal(name, cfg.temporal_layers, **sizes).to(device)
        known = {"step": step, "part": part, "inputs": inputs}
        timer = Timer("step(part, inputs)", globals=known, num_threads=torch.get_num_threads())
        ms[name] = 1e3 * timer.blocked_autorange(min_run_time=SECONDS).median
    print(
        f"\n{model}: {cfg.temporal_layers} layers, width {cfg.width}, {cfg.queries} queries, "
        f"T = {slots}, {int(start_BT.sum())} videos"
    )
    rows = [(name, time, time - ms["none"]) for name, time in ms.items()]
    print(tabulate(rows, ("part", "ms", "over none"), "plain", floatfmt=".1f"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the temporal parts, forward and backward.")
    parser.add_argument("--device", type=torch.device, default="cpu")
    parser.add_argument("--model", choices=tuple(SLOTS), help="one size instead of both")
    arguments = parser.parse_args()

    device = arguments.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    for model in (arguments.model,) if arguments.model else SLOTS:
        for slots in SLOTS[model]:
            measure(model, slots, device)


if __name__ == "__main__":
    main()
