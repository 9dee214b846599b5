"""Objects that the steps of a run share: model, optimiser, and how gradients get from rank to rank.

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
    """Everything that the steps of a run share; `build_training` makes it."""

    cfg: TrainConfig
    """With the epochs that will be trained, see `TrainConfig.for_slots`."""
    ranks: Ranks
    model: DDS
    parallel: nn.Module
    """The model itself, or under DDP what synchronises its gradients."""
    average: AveragedModel | None
    """Moving average of the weights, which is evaluated instead of the model."""
    criterion: Criterion
    letterbox: Letterbox
    optimiser: Optimiser
    schedule: Schedule

    @property
    def ranks_differ(self) -> bool:
        """True if every rank has weights and an optimiser of its own, see `training.sync`."""
        return self.ranks.world_size > 1 and self.cfg.sync != "allreduce"

    def learned(self) -> dict[str, Any]:
        """Return the states that steps change on this rank, by name of the attribute."""
        parts: dict[str, Any] = {"model": self.model, "average": self.average}
        parts["optimiser"] = self.optimiser
        return {name: part.state_dict() for name, part in parts.items() if part is not None}

    def mean(self) -> dict[str, Any]:
        """Return the states of model and average with the means over ranks, which all call this."""
        parts = {"model": self.model, "average": self.average}
        return {name: mean_of_ranks(part).state_dict() for name, part in parts.items() if part}

    def model_to_evaluate(self) -> nn.Module:
        """Return the model, or the average of its weights.

        If weights differ by rank, it is a copy with their mean; all ranks call this.
        """
        module = self.average.module if self.average else self.model
        return mean_of_ranks(module) if self.ranks_differ else module

    def accumulating(self) -> AbstractContextManager[None]:
        """Within it gradients stay on their rank and add up."""
        if isinstance(self.parallel, DistributedDataParallel):
            return self.parallel.no_sync()
        return contextlib.nullcontext()


def choose_kernels(amp: str, deterministic: bool, one_shape: bool) -> None:
    """Let this process take a GPU's fastest kernels, as far as a config allows it.

    TF32 is for what ``amp=auto`` and ``bf16`` leave in float32. Convolutions are tried out where
    all batches have one shape.
    """
    torch.backends.cudnn.benchmark = one_shape and not deterministic
    tf32 = amp != "off" and not deterministic
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def build_network(cfg: TrainJob, device: torch.device) -> DDS:
    """Build the model of a job; under ``model.checkpoint=auto`` it recomputes all it can."""
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
    """Wrap a model, which is on its device already, with what training it takes."""
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
    """Wrap a model so that its gradients are averaged over ranks, in one order from step 0 on.

    DDP rearranges its buckets after the first backward pass, and with them the order of sums over
    three ranks or more, so that a run that goes on would differ in its first step. Two slots of
    padding go through here, for that to be over.
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
