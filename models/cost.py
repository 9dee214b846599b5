"""Cost of a network, measured on tensors without data: half a minute at most, at any size.

    python -m models.cost dds_tiny
    python -m models.cost dds --frame-size 480 640 --frames 188 --precision bf16

Everything runs under PyTorch's `FakeTensorMode`, which computes only shapes, and so without the
memory and the time of real passes.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
import yaml
from tabulate import tabulate
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from bload.batch.walk_order import WalkOrder
from models import build_model
from models.config import ModelConfig
from models.execution import Execution
from models.frames import Frames
from models.recompute import CHUNK, Recompute
from models.temporal.layers import walk_orders

PER_FRAME = ("backbone", "input_proj", "encoder")
"""Parts that see one picture at a time; these are recomputed."""
OTHER = "other"
"""Key for FLOPs and bytes that belong to no named part."""
GIB = 2**30


@dataclass(frozen=True)
class Affine:
    """Bytes as a function of frames."""

    fixed: float
    per_frame: float

    def __call__(self, frames: int) -> float:
        return self.fixed + self.per_frame * frames


@dataclass(frozen=True)
class NetworkCost:
    """Cost of one network at one frame size. Parts are the network's children, by name."""

    parameters: dict[str, int]
    trainable: dict[str, int]
    flops: dict[str, float]
    """Per frame of a forward pass; a multiply-add counts as two."""
    saved: dict[str, Affine]
    """Bytes saved for the backward pass, with nothing recomputed."""
    saved_recomputing: Affine
    """Bytes saved by all parts together if the per-frame part is recomputed."""
    parameter_bytes: int
    trainable_bytes: int

    def activations(self, frames: int, share: float) -> float:
        """Return the most bytes of activations that a step of so many frames holds at once.

        That is what is saved when the backward pass begins, with the per-frame part of pictures
        that are not recomputed, or one recomputed chunk of pictures if that is more.
        """
        recomputed_count = round(share * frames)
        if not recomputed_count:
            return sum(saved(frames) for saved in self.saved.values())
        saved = self.saved_recomputing(frames) + (frames - recomputed_count) * self._per_picture
        return max(saved, min(recomputed_count, CHUNK) * self._per_picture)

    @property
    def _per_picture(self) -> float:
        """Bytes that the per-frame part saves for a picture."""
        return sum(self.saved[part].per_frame for part in PER_FRAME if part in self.saved)

    @property
    def optimiser_bytes(self) -> int:
        """Gradients and AdamW's two moments."""
        return 3 * self.trainable_bytes

    def step_bytes(self, frames: int, share: float) -> float:
        """Return the bytes that a step of so many frames takes beside the parameters.

        Temporaries and losses are left out: in one process they fit where the gradients will be,
        which grow while activations are freed.
        """
        return self.activations(frames, share) + self.optimiser_bytes

    def least_share(self, frames: int, room: float) -> float:
        """Return the least share of the pictures to recompute for a step to fit into `room` bytes.

        After DCP's adaptive recomputation (VideoSys), with one share for every batch; 1 if nothing
        fits.
        """
        fitting = (
            count for count in range(frames) if self.step_bytes(frames, count / frames) <= room
        )
        return next(fitting, frames) / frames


def measure_cost(
    cfg: ModelConfig,
    frame_size: tuple[int, int],
    slots: int,
    precision: torch.autocast,
    device: torch.device,
) -> NetworkCost:
    """Measure the network of a config, for training.

    It measures one and two blocks of so many slots; the rest follows, since costs are affine in
    blocks. The cost of a frame may depend on the length of its block. `precision` is the autocast
    of forward passes; what kernels save depends on the device.
    """
    # The number of steps of a walk depends on data: one video in each block.
    orders = [walk_orders((torch.arange(slots) == 0).repeat(blocks, 1), None) for blocks in (1, 2)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device(device):
            model, recomputing = (
                build_model(cfg, execution=execution).train()
                for execution in (Execution(), Recompute())
            )
        named_parameters = list(model.named_parameters())
        trainable = [(name, p) for name, p in named_parameters if p.requires_grad]
        one_block, two_blocks = (_frames(order, frame_size, device) for order in orders)
        one_flops, two_flops = (forward_flops(model, frames) for frames in (one_block, two_blocks))
        one_saved, two_saved = (
            saved_bytes(model, batch, precision) for batch in (one_block, two_blocks)
        )
        one_recomputed, two_recomputed = (
            saved_bytes(recomputing, batch, precision) for batch in (one_block, two_blocks)
        )
    return NetworkCost(
        parameters=_by_part(named_parameters),
        trainable=_by_part(trainable),
        flops={part: (two_flops[part] - one_flops[part]) / slots for part in two_flops},
        saved={part: _affine(one_saved[part], two_saved[part], slots) for part in two_saved},
        saved_recomputing=_affine(one_recomputed.total(), two_recomputed.total(), slots),
        parameter_bytes=sum(p.nbytes for _, p in named_parameters),
        trainable_bytes=sum(p.nbytes for _, p in trainable),
    )


@torch.no_grad()
def forward_flops(model: nn.Module, frames: Frames) -> Counter[str]:
    """Count the FLOPs of a forward pass by part; a multiply-add counts as two.

    As in PyTorch's counter, these are matrix products, convolutions and attention; the rest is next
    to nothing.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(frames)
    by_module = counter.get_flop_counts()
    flops: Counter[str] = Counter()
    for part, _ in model.named_children():
        flops[part] = sum(by_module.get(f"{type(model).__name__}.{part}", {}).values())
    flops[OTHER] = counter.get_total_flops() - flops.total()
    return flops


def saved_bytes(model: nn.Module, frames: Frames, precision: torch.autocast) -> Counter[str]:
    """Count the bytes that a forward pass saves for the backward pass, by the part that saves them.

    A storage counts once and whole, for the part that saves it first, however many tensors view it;
    parameters, buffers and the batch itself do not count.
    """
    inputs = [getattr(frames, key.name) for key in fields(frames)]
    known_storages = {
        _storage(tensor)
        for tensor in (*model.parameters(), *model.buffers(), *inputs)
        if isinstance(tensor, Tensor)
    }
    held_tensors: list[Tensor] = []
    sizes: Counter[str] = Counter()
    tracker = ModuleTracker()

    def pack(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in known_storages:
            known_storages.add(_storage(tensor))
            held_tensors.append(tensor)  # so that no other storage reuses its address
            # The modules that run, such as DDS, DDS.encoder and DDS.encoder.norm.
            running = (name.split(".")[1] for name in tracker.parents if "." in name)
            sizes[next(running, OTHER)] += tensor.untyped_storage().nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with tracker, hooks, precision:
        model(frames)
    return sizes


def _frames(orders: list[WalkOrder], frame_size: tuple[int, int], device: torch.device) -> Frames:
    """Make frames without values."""
    blocks, slots = len(orders[0].last_B), orders[0].slots
    pixels = torch.empty(blocks, slots, 3, *frame_size, dtype=torch.uint8, device=device)
    start, valid = torch.empty(2, blocks, slots, dtype=torch.bool, device=device)
    gap_BT = torch.empty(blocks, slots, device=device)
    device_orders = [
        WalkOrder(order.rows_T, *(getattr(order, f.name).to(device) for f in fields(order)[1:]))
        for order in orders
    ]
    return Frames(pixels, start, valid, None, gap_BT, device_orders)


def _by_part(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, parameter in parameters:
        counts[name.split(".")[0]] += parameter.numel()
    return counts


def _affine(one_block: float, two_blocks: float, slots: int) -> Affine:
    block = two_blocks - one_block
    return Affine(one_block - block, block / slots)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of a network of ``configs/model/``."""
    parser = argparse.ArgumentParser(
        prog="python -m models.cost", description="Parameters, FLOPs and memory of a network."
    )
    parser.add_argument("model", help="name of a file in configs/model/")
    parser.add_argument("--frame-size", type=int, nargs=2, default=(64, 64), metavar=("H", "W"))
    parser.add_argument("--frames", type=int, default=94, help="of a rank's step; default 94")
    parser.add_argument("--slots", type=int, default=94, help="of a block; default 94")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args(arguments)
    path = Path(__file__).parents[1] / "configs" / "model" / f"{args.model}.yaml"
    if not path.is_file():
        parser.error(f"there is no {path}; its folder has those that there are")
    cfg = ModelConfig(**yaml.safe_load(path.read_text()))
    precision = torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16")
    size, slots = (args.frame_size[0], args.frame_size[1]), min(args.slots, args.frames)
    cost = measure_cost(cfg, size, slots, precision, torch.device(args.device))
    print(f"{args.model}, frames of {size[0]} x {size[1]}, {args.precision}, blocks of {slots}\n")
    print(format_cost(cost, args.frames))


def format_cost(cost: NetworkCost, frames: int) -> str:
    """Format two tables: a line per part, and a rank's step of so many frames."""
    parts = list(dict.fromkeys((*cost.flops, *cost.parameters, *cost.saved)))
    rows = [
        (
            part,
            cost.parameters.get(part, 0),
            cost.trainable.get(part, 0),
            cost.flops.get(part, 0) / 1e9,
            cost.saved[part].per_frame / 2**20 if part in cost.saved else 0.0,
        )
        for part in parts
    ]
    total = ("total", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    head = ("part", "parameters", "trainable", "GFLOP per frame", "MiB saved per frame")
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
    ways = (f"a step of {frames} frames, GiB", "recompute=none", "backbone")
    return (
        f"{by_part}\n\n"
        "GFLOP: a forward pass in training, a multiply-add counts as two; the backward pass takes "
        "about twice as many more.\n"
        "saved: activations that the backward pass needs.\n\n"
        f"{tabulate(step, ways, 'plain', floatfmt=',.2f')}\n\n"
        f"model.recompute=backbone recomputes {', '.join(PER_FRAME)}, {CHUNK} frames at a time. "
        "Temporaries and losses come on top."
    )


if __name__ == "__main__":
    main()
