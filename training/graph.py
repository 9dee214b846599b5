"""CUDA graphs of the network: ``train.cuda_graph``. A GPU replays one without the host.

Both passes are recorded once, without matcher, losses and optimiser. The order of wrapping matters:

1. the moving average copies it; a copy of what is recorded would replay the original's graph;
2. the pass is recorded, which hooks of DDP would prevent;
3. DDP wraps what is recorded, with a first backward pass of the full shape.

Gradients are in the same memory in every step, so a step has one batch per rank
(https://github.com/pytorch/pytorch/issues/181723). Evaluation is never recorded.
"""

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from bload import BlockLoader
from models.dds import DDS
from models.network_input import NetworkInput
from models.outputs import Outputs, trained_fields
from models.tensor_network import TensorNetwork
from training.config import TrainJob
from training.data import ToInputs
from training.ranks import Ranks, autocast

DEVICE = "cuda"
MOST_DEVIATION = {"off": 0.01, "auto": 0.1, "bf16": 0.1}
"""Largest deviation that passes for rounding, as a share, by ``train.amp``."""


class Recorded(nn.Module):
    """A network whose training pass is replayed; other batches than the example's are computed."""

    def __init__(self, core: TensorNetwork, example: NetworkInput) -> None:
        super().__init__()
        tensors = tuple(values.clone() for values in core.tensors(example))  # a replay reads these
        self.shapes = [(values.shape, values.dtype) for values in tensors]
        self.core, self.computed = core, 0
        torch.cuda.make_graphed_callables(core, tensors)  # replaces its `forward`

    def forward(self, inputs: NetworkInput, state: None = None) -> Outputs:
        """Return the outputs without a state; a replay overwrites those of the one before."""
        tensors = self.core.tensors(inputs)
        if [(values.shape, values.dtype) for values in tensors] != self.shapes:
            self.computed += 1
            return self.core.model(inputs)
        return replace(Outputs(*self.core(*tensors)), extent_BT2=inputs.extent_BT2)


def find_obstacle(cfg: TrainJob, model: DDS, loader: BlockLoader, device: torch.device) -> str:
    """Return the first reason why steps cannot be recorded; empty if there is none."""
    recomputes = model.recomputed_share > 0 or model.offload
    reasons = {
        f"the device is a {device.type}": device.type != DEVICE,
        "blocks have several sizes": not loader.sampler.plan.has_one_size,
        "padding is skipped (model.skip_padding)": model.skip_padding,
        "ranks exchange frames (train.exchange)": model.exchange,
        "states go on from step to step (loader.long=carry)": loader.sampler.plan.carries,
        "not all activations are kept (model.recompute)": recomputes,
        "a step has several batches (train.micro_batches)": cfg.train.micro_batches > 1,
        "ranks have unequal batches (loader.balance)": cfg.loader.balance == "uneven",
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def record_if_possible(
    cfg: TrainJob, ranks: Ranks, model: DDS, loader: BlockLoader, to_inputs: ToInputs
) -> tuple[nn.Module, NetworkInput | None]:
    """Record the network of a run, and check it; return it with the inputs of this rank's batch.

    If that fails on any rank, print the reason, and return the network itself.
    """
    network: nn.Module = model
    inputs, reason = None, find_obstacle(cfg, model, loader, ranks.device)
    if not reason:
        try:
            blocks = next(loader.sampler.batches())
            batch = loader.torch_loader.collate_fn([loader.torch_loader.dataset[b] for b in blocks])
            inputs, _ = to_inputs(batch)
            if inputs.extent_BT2 is None and to_inputs.letterbox.leaves_margins:
                ones_BT2 = torch.ones(*inputs.start_BT.shape, 2)  # other batches have extents
                inputs = replace(inputs, extent_BT2=ones_BT2)
            precision = partial(autocast, cfg.train.amp, ranks.device, cache_enabled=False)
            network, share = record_and_compare(model, inputs, precision)
            if not share <= MOST_DEVIATION[cfg.train.amp]:
                reason = f"outputs or gradients deviate by {share:.2g} of their size"
        except Exception as error:  # a step works without a graph
            first = error.__context__ or error  # the end of a capture that failed raises too
            reason = f"recording failed: {type(first).__name__}: {first}".splitlines()[0]
            if torch.cuda.is_initialized():  # such a capture leaves its stream the current one
                torch.cuda.set_stream(torch.cuda.default_stream())
    if reasons := [text for text in ranks.gather(reason) if text]:
        network, inputs = model, None
        gc.collect()  # what was recorded keeps its memory
        ranks.print(f"steps are not recorded as CUDA graphs: {reasons[0]}")
    return network, inputs


def record_and_compare(
    model: DDS, inputs: NetworkInput, precision: Callable[[], torch.autocast]
) -> tuple[nn.Module, float]:
    """Record a network; return it, and how far it deviates, as a share of an output or a gradient.

    On another batch, the slots in reverse; weights of zero, which hide what they multiply, drawn.
    The plain pass comes first, since a graph keeps the memory of a whole step.
    """
    pixels_BTCHW, start_BT = inputs.pixels_BTCHW.flip(1), inputs.start_BT.flip(1)
    other = replace(inputs, pixels_BTCHW=pixels_BTCHW, start_BT=start_BT)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    zeros = [parameter for parameter in trained if not parameter.any()]

    def both_passes(network: nn.Module) -> list[Tensor]:
        torch.manual_seed(0)  # dropout
        with precision():
            outputs = trained_fields(network(other))
        loss = torch.stack([values.square().mean() for values in outputs]).sum()
        gradients = torch.autograd.grad(loss, trained)
        return [values.detach().clone() for values in (*outputs, *gradients)]

    try:
        for parameter in zeros:
            nn.init.normal_(parameter, std=0.02)
        plain = both_passes(model)
        network = Recorded(TensorNetwork(model, inputs, precision), inputs)
        replayed = both_passes(network)
    finally:  # what fails here trains without graphs
        for parameter in zeros:
            nn.init.zeros_(parameter)
    sizes = torch.stack([values.norm() for values in plain])
    errors = torch.stack([(one - two).norm() for one, two in zip(plain, replayed, strict=True)])
    share = float((errors / sizes.clamp(min=0.01 * sizes.median())).max())  # some: mere rounding
    return network, share
