"""Cost of a network, measured on tensors without data: half a minute at most, at any size.

    python -m models.cost dds_tiny
    python -m models.cost dds --frame-size 480 640 --precision bf16

Everything runs under PyTorch's `FakeTensorMode`, which computes only shapes, and so without the
memory and the time of real passes.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bload.batch.walk_order import WalkOrder
from models import build_model
from models.config import ModelConfig
from models.dds import RECOMPUTED_AT_ONCE
from models.network_input import NetworkInput

GIB = 2**30


@dataclass(frozen=True)
class NetworkCost:
    """Cost of one network at one frame size."""

    parameters: int
    flops: float
    """Per frame of a forward pass; a multiply-add counts as two."""
    frames: int
    """Of the step that was measured."""
    saved_bytes: int
    """What the step saves for its backward pass, with nothing recomputed."""
    recomputable_bytes: int
    """What the per-frame part (backbone, input projection, encoder) saves of that."""

    def step_bytes(self, share: float) -> float:
        """Return the most bytes that the step holds at once, a share of the pictures recomputed.

        These are parameters, gradients, AdamW's two moments and what is saved when the backward
        pass begins, or one recomputed chunk of pictures if that is more. Temporaries and losses are
        left out: in one process they fit where the gradients will be, which grow while activations
        are freed.
        """
        recomputed, each = round(share * self.frames), self.recomputable_bytes / self.frames
        kept = max(self.saved_bytes - recomputed * each, min(recomputed, RECOMPUTED_AT_ONCE) * each)
        return 4 * 4 * self.parameters + kept

    def least_share(self, room: float) -> float:
        """Return the least share of the pictures to recompute for the step to fit into `room`.

        As DCP's adaptive recomputation (VideoSys), but one for all batches; 1 if nothing fits.
        """
        shares = (count / self.frames for count in range(self.frames))
        return next((share for share in shares if self.step_bytes(share) <= room), 1.0)


def measure_cost(
    cfg: ModelConfig,
    frame_size: tuple[int, int],
    shape_BT: tuple[int, int],
    precision: torch.autocast,
    device: torch.device,
    with_flops: bool = True,
) -> NetworkCost:
    """Measure the network of a config on one step, with one video in each block.

    `precision` is the autocast of forward passes; what kernels save depends on the device.
    """
    # The number of steps of a walk depends on data, so its order is made of real starts.
    start_BT = (torch.arange(shape_BT[1]) == 0).repeat(shape_BT[0], 1)
    order = WalkOrder.of(start_BT)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device(device):
            model = build_model(cfg, recomputed_share=0.0).train()
            pixels = torch.empty(*shape_BT, 3, *frame_size, dtype=torch.uint8)
            gap_BT = torch.empty(shape_BT)
        parts = order.slot_V, order.block_S, order.starts_S, order.last_B  # fakes cannot be pinned
        order = WalkOrder(order.rows_T, *(part.to(device) for part in parts))
        inputs = NetworkInput(pixels, start_BT.to(device), None, None, gap_BT, order)
        flops = count_flops(lambda: model(inputs)) if with_flops else 0  # half of the time
        with precision:
            saved = count_saved_bytes(model, lambda: model(inputs))
            recomputable = count_saved_bytes(model, lambda: model.encode(pixels.flatten(0, 1)))
    parameters, count = sum(p.numel() for p in model.parameters()), start_BT.numel()
    return NetworkCost(parameters, flops / count, count, saved, recomputable)


@torch.no_grad()
def count_flops(compute: Callable[[], object]) -> int:
    """Count the FLOPs of products, convolutions and attention; a multiply-add counts as two."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        compute()
    return counter.get_total_flops()


def count_saved_bytes(model: nn.Module, compute: Callable[[], object]) -> int:
    """Count the bytes that `compute` saves for its backward pass, except parameters and buffers.

    A storage counts once and whole, however many tensors view it.
    """
    known = {tensor.untyped_storage()._cdata for tensor in model.state_dict().values()}
    storages: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage  # held, so that no other one reuses its address
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        compute()
    return sum(storage.nbytes() for key, storage in storages.items() if key not in known)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of a network of ``configs/model/``, of a block of 94 slots on a CPU."""
    words = "Parameters, FLOPs and memory of a network."
    parser = argparse.ArgumentParser("python -m models.cost", description=words)
    folder = Path(__file__).parents[1] / "configs" / "model"
    paths = {path.stem: path for path in folder.glob("*.yaml")}
    parser.add_argument("model", choices=sorted(paths))
    parser.add_argument("--frame-size", type=int, nargs=2, default=(64, 64), metavar=("H", "W"))
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    args = parser.parse_args(arguments)
    if min(args.frame_size) < 1:
        parser.error("--frame-size takes a height and a width in pixels, from 1 on")
    cfg, device = ModelConfig(**yaml.safe_load(paths[args.model].read_text())), torch.device("cpu")
    precision = torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16")
    cost = measure_cost(cfg, tuple(args.frame_size), (1, 94), precision, device)
    whole, least = (cost.step_bytes(share) / GIB for share in (0, 1))
    print(
        f"{args.model}: {cost.parameters:,} parameters; {cost.flops / 1e9:.3f} GFLOP a frame in a "
        "forward pass (a multiply-add counts as two), about twice as many more in a backward pass\n"
        f"a step of {cost.frames} frames: {whole:.2f} GiB, or {least:.2f} with "
        "model.recompute=backbone; temporaries and losses come on top"
    )


if __name__ == "__main__":
    main()
