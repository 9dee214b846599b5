"""Objects shared by the steps of a run: model, optimiser, exchange of gradients.

B blocks, T slots.
"""

import contextlib
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from datasets.letterbox import Letterbox
from models import DDS, Criterion, build_model
from models.backbone import freeze_first_stage
from models.config import share_of
from training.config import TrainConfig, TrainJob
from training.optimiser import Optimiser, Schedule, build_optimiser
from training.ranks import Ranks
from training.sync import mean_of_ranks


@dataclass(frozen=True)
class Training:
    """Everything that the steps of a run share, from `build_training`."""

    cfg: TrainConfig
    """With the number of epochs to train, see `TrainConfig.for_slots`."""
    ranks: Ranks
    model: DDS
    parallel: nn.Module
    """The model, or the DDP wrapper that synchronises its gradients."""
    average: AveragedModel | None
    """Moving average of the weights, evaluated in place of the model."""
    criterion: Criterion
    letterbox: Letterbox
    optimiser: Optimiser
    schedule: Schedule

    @property
    def ranks_differ(self) -> bool:
        """True if each rank has its own weights and optimiser, see `training.sync`."""
        return self.ranks.world_size > 1 and self.cfg.sync != "allreduce"

    def learned(self) -> dict[str, Any]:
        """Return this rank's state dicts that steps change, by name of the attribute."""
        parts: dict[str, Any] = {"model": self.model, "average": self.average}
        parts["optimiser"] = self.optimiser
        return {name: part.state_dict() for name, part in parts.items() if part is not None}

    def mean(self) -> dict[str, Any]:
        """Return the state dicts of model and average, as means over ranks; all ranks call this."""
        parts = {"model": self.model, "average": self.average}
        return {name: mean_of_ranks(part).state_dict() for name, part in parts.items() if part}

    def model_to_evaluate(self) -> nn.Module:
        """Return the model, or the average of its weights.

        If weights differ by rank, return a copy with their mean; all ranks call this.
        """
        module = self.average.module if self.average else self.model
        return mean_of_ranks(module) if self.ranks_differ else module

    def accumulating(self) -> AbstractContextManager[None]:
        """Accumulate gradients within this context, without synchronising them."""
        if isinstance(self.parallel, DistributedDataParallel):
            return self.parallel.no_sync()
        return contextlib.nullcontext()


def choose_kernels(amp: str, deterministic: bool, one_shape: bool) -> None:
    """Enable the fastest GPU kernels that a config allows, for this process.

    TF32 serves what ``amp=auto`` and ``bf16`` leave in float32. cuDNN tries out convolutions if all
    batches have one shape.
    """
    torch.backends.cudnn.benchmark = one_shape and not deterministic
    tf32 = amp != "off" and not deterministic
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def build_network(cfg: TrainJob, device: torch.device) -> DDS:
    """Build the model of a job; with ``model.checkpoint=auto`` it recomputes all pictures."""
    choice = cfg.model.checkpoint
    model = build_model(cfg.model).to(device)
    model.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.skips_padding = cfg.model.padding == "skipped"
    model.recompute = 1.0 if choice == "auto" else share_of(choice)
    model.offload = choice == "offload"
    if cfg.model.weights:
        freeze_first_stage(model.backbone)
    return model


def build_training(
    cfg: TrainConfig, ranks: Ranks, model: DDS, criterion: Criterion, letterbox: Letterbox
) -> Training:
    """Build the `Training` of a model that is already on its device."""
    average = None
    if cfg.ema:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(cfg.ema))
    parallel: nn.Module = model
    if ranks.world_size > 1 and cfg.sync == "allreduce":
        parallel = in_parallel(model, ranks)
    return Training(
        cfg,
        ranks,
        model,
        parallel,
        average,
        criterion,
        letterbox,
        build_optimiser(model, cfg.lr, cfg.backbone_lr, cfg.weight_decay, cfg.muon_lr),
        Schedule(cfg.schedule, cfg.epochs, cfg.warmup_epochs, cfg.step_at),
    )


def in_parallel(model: DDS, ranks: Ranks) -> DistributedDataParallel:
    """Wrap a model in DDP so that gradients are summed in one order from step 0 on.

    DDP rearranges its buckets after the first backward pass. That changes the order of sums over
    three or more ranks, so the first step of a resumed run would differ. A backward pass on two
    slots of padding, here, gets the rearrangement over with.
    """
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    parallel.broadcast_buffers = False  # they are constant
    frames_BTCHW = torch.zeros(1, 2, 3, 64, 64, dtype=torch.uint8, device=ranks.device)
    nothing_BT = torch.zeros(1, 2, dtype=torch.bool, device=ranks.device)
    outputs = parallel(frames_BTCHW, nothing_BT, gap_BT=nothing_BT.float())
    values = [getattr(outputs, field.name) for field in fields(outputs)]
    torch.stack([value.sum() for value in values if isinstance(value, Tensor)]).sum().backward()
    parallel.zero_grad()
    return parallel
