"""Training: one step, one epoch.

B blocks, T slots.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from bload import Batch, BlockLoader, InputError
from datasets.annotations.frame_names import video_of
from datasets.gaps import frame_gaps
from datasets.letterbox import Letterbox
from experiments.ablations import change_starts, repeat_last
from experiments.config import TrainConfig
from experiments.failures import Diverged
from experiments.optimiser import Schedule, build_optimiser, set_rates
from experiments.ranks import Ranks, autocast
from models import DDS, Criterion, counts, to_tensors

SHOWN = 8
"""Videos that a sentence names."""


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
    optimiser: torch.optim.Optimizer
    schedule: Schedule

    @property
    def evaluated(self) -> nn.Module:
        return self.average.module if self.average else self.model


@dataclass(frozen=True, slots=True)
class Step:
    """Figures of one step: losses are sums over this rank's frames divided by global counts."""

    losses: dict[str, float]
    norm: float
    """Norm of the global gradient before clipping."""
    rate: float
    """Learning rate of all but the backbone."""
    stopping: bool
    """True on every rank if a signal has asked one of them to stop after this step."""


def build_training(
    cfg: TrainConfig, ranks: Ranks, model: DDS, criterion: Criterion, letterbox: Letterbox
) -> Training:
    """Wrap a model, which is on its device already, with what training it takes."""
    average = None
    if cfg.ema:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(cfg.ema))
    return Training(
        cfg,
        ranks,
        model,
        in_parallel(model, ranks) if ranks.world_size > 1 else model,
        average,
        criterion,
        letterbox,
        build_optimiser(model, cfg.lr, cfg.backbone_lr, cfg.weight_decay),
        Schedule(cfg.schedule, cfg.epochs, cfg.warmup_epochs, cfg.step_at),
    )


def in_parallel(model: DDS, ranks: Ranks) -> DistributedDataParallel:
    """Wrap a model so that its gradients are averaged over ranks, in one order from step 0 on.

    DDP rearranges its buckets after the first backward pass, and with them the order of sums over
    three ranks or more, so that a run that goes on would differ in its first step. Two slots of
    padding go through here, for that to be over.
    """
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    frames_BTCHW = torch.zeros(1, 2, 3, 64, 64, dtype=torch.uint8, device=ranks.device)
    nothing_BT = torch.zeros(1, 2, dtype=torch.bool, device=ranks.device)
    outputs = parallel(frames_BTCHW, nothing_BT, gap_BT=nothing_BT.float())
    values = [getattr(outputs, field.name) for field in fields(outputs)]
    sum(value.sum() for value in values if value is not None).backward()
    parallel.zero_grad()
    return parallel


def compute_losses(training: Training, batch: Batch, epoch: int) -> tuple[dict[str, Tensor], bool]:
    """The losses of a batch: sums over this rank's frames, divided by the targets of all ranks.

    Returns:
        The losses, and whether a signal has asked any rank to stop, which the same sum tells.
    """
    cfg, ranks = training.cfg, training.ranks
    if cfg.padding == "repeated":
        batch = repeat_last(batch)
    gap_BT = frame_gaps(batch).to(ranks.device, non_blocking=True)
    batch, extent_BT2 = training.letterbox(batch, ranks.device, epoch)
    targets = to_tensors(batch.targets, ranks.device)
    wish = torch.tensor([float(ranks.stop.number)], dtype=torch.float64)
    summed = ranks.sum(torch.cat([counts(targets, training.model.queries), wish]))
    total, stopping = summed[:-1], bool(summed[-1])
    start_BT = change_starts(batch.start_BT, batch.valid_BT, cfg.starts, cfg.seed)
    with autocast(cfg.amp, ranks.device):
        outputs = training.parallel(
            batch.frames_BT,
            start_BT,
            batch.valid_BT,
            bptt=cfg.bptt,
            extent_BT2=extent_BT2,
            gap_BT=gap_BT,
        )
    return training.criterion(outputs, targets, batch.valid_BT, total), stopping


def backward(training: Training, losses: dict[str, Tensor]) -> Tensor:
    """Set the gradients of the global loss, clipped, on every rank; return their norm before."""
    training.optimiser.zero_grad()
    # DDP divides the sum of gradients by the number of ranks; this takes it back.
    (losses["loss"] * training.ranks.world_size).backward()
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    return nn.utils.clip_grad_norm_(parameters, training.cfg.clip_norm)


def train_step(training: Training, batch: Batch, epoch: int, step: int, steps: int) -> Step:
    """Take step number `step` of the `steps` of an epoch.

    Raises:
        Diverged: losses or gradient are not finite. Weights and optimiser are as before then.
    """
    cfg = training.cfg
    seed_step(cfg.seed, epoch, step, training.ranks.rank)
    set_rates(training.optimiser, training.schedule(epoch + (step + 1) / steps))
    here = f"epoch {epoch + 1}, step {step + 1}"
    try:
        losses, stopping = compute_losses(training, batch, epoch)
    except InputError as error:
        raise Diverged(f"{error}; {here}, in {_videos(batch)}") from error
    gradient_norm = backward(training, losses)
    norm, *values = torch.stack([gradient_norm, *losses.values()]).tolist()  # one wait
    if not math.isfinite(norm):
        mine = f"rank {training.ranks.rank}'s loss is {values[0]} in {_videos(batch)}"
        raise Diverged(
            f"the gradient is {norm} in {here}: {'; '.join(training.ranks.gather(mine))}; "
            f"lower train.lr ({cfg.lr}) or set train.amp=off"
        )
    training.optimiser.step()
    if training.average:
        training.average.update_parameters(training.model)
    rate = training.optimiser.param_groups[-1]["lr"]
    return Step(dict(zip(losses, values, strict=True)), norm, rate, stopping)


def _videos(batch: Batch) -> str:
    """The videos of a batch, for an error message."""
    names = list(dict.fromkeys(video_of(target.name) for target in batch.targets))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"videos {', '.join(names[:SHOWN])}{more}" if names else "no video"


def train_epoch(
    training: Training, loader: BlockLoader, epoch: int, sums: dict[str, float]
) -> Iterator[Step]:
    """Take the steps of an epoch that `loader` has left, and hand over the figures of each.

    Args:
        sums: this rank's losses, ``seconds`` and ``waiting`` (for data) are added to it. The time
            that the caller takes between steps counts as the epoch's.
    """
    steps = len(loader)
    with tqdm(
        total=steps,
        initial=loader.step,
        desc=f"epoch {epoch + 1}/{training.cfg.epochs}",
        unit="step",
        leave=False,
        disable=None if training.ranks.is_first else True,  # None: only on a terminal
    ) as bar:
        began = asked = time.perf_counter()
        training.ranks.at(f"epoch {epoch + 1}, waiting for batch {loader.step + 1}")
        for batch in loader:
            training.ranks.at(f"epoch {epoch + 1}, step {loader.step}")
            sums["waiting"] += time.perf_counter() - asked
            step = train_step(training, batch, epoch, loader.step - 1, steps)
            add(sums, step.losses)
            now = time.perf_counter()
            sums["seconds"] += now - began
            began = now
            bar.update()
            yield step
            training.ranks.at(f"epoch {epoch + 1}, waiting for batch {loader.step + 1}")
            asked = time.perf_counter()
        sums["seconds"] += time.perf_counter() - began


def add(sums: dict[str, float], values: Mapping[str, float]) -> None:
    """Add `values` to `sums` by name, in place."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value


def seed_step(seed: int, epoch: int, step: int, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, step, rank]).generate_state(1)[0]))
