"""Training: one step.

B blocks, T slots.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bload import Batch
from datasets.annotations.frame_names import video_of
from datasets.gaps import frame_gaps, last_numbers
from models import counts, to_tensors
from training.ablations import change_starts, repeat_last
from training.build import Training
from training.carried import Carried
from training.optimiser import set_rates
from training.ranks import AgreedError, autocast
from training.sync import SYNCS, is_due, trained

SHOWN = 8
"""Videos named in an error message."""


@dataclass(frozen=True, slots=True)
class Step:
    """Figures of one step; losses are sums over this rank's frames, divided by global counts."""

    losses: dict[str, float]
    norm: float
    """Gradient norm before clipping: global, or this rank's if weights differ."""
    rate: float
    """Learning rate of all but the backbone."""
    stopping: bool
    """True on every rank if a signal asked any of them to stop after this step."""
    saving: bool
    """True on every rank if any of them asked for a checkpoint after this step."""


def step_counts(
    training: Training, batches: Sequence[Batch], save: bool = False
) -> tuple[Tensor, tuple[bool, bool]]:
    """Count what the losses of a step are divided by, over all its batches and ranks.

    Returns:
        The counts, and two flags from the same sum: a signal asked any rank to stop; any rank wants
        to `save`.
    """
    objects = [len(frame.object_classes_M) for batch in batches for frame in batch.targets]
    wishes = torch.tensor([training.ranks.stop.number, save], dtype=torch.float64)
    found = training.ranks.sum(torch.cat([counts(objects, training.model.queries), wishes]))
    return found[:-2], (bool(found[-2]), bool(found[-1]))


def compute_losses(
    training: Training, batch: Batch, epoch: int, total: Tensor, before: Carried | None = None
) -> tuple[dict[str, Tensor], Any]:
    """Compute the losses of a batch: sums over its frames, over the targets of the whole step.

    Args:
        before: memory of the rows from the step before, if they continue.

    Returns:
        The losses, and the state of the memory after the batch.
    """
    cfg, device = training.cfg, training.ranks.device
    state, number_B = (before.state, before.number_B) if before else (None, None)
    there, extent_BT2 = training.letterbox(batch, device, epoch)
    targets = to_tensors(there.targets, device)
    start_BT = change_starts(batch.start_BT, batch.valid_BT, cfg.starts, cfg.seed)
    with autocast(cfg.amp, device):
        outputs = training.parallel(
            there.inputs_BT,
            start_BT,
            batch.valid_BT,
            bptt=cfg.bptt,
            extent_BT2=extent_BT2,
            gap_BT=frame_gaps(batch, number_B),
            state=state,
        )
    return training.criterion(outputs, targets, batch.valid_BT, total), outputs.state


def backward(
    training: Training,
    batches: Sequence[Batch],
    epoch: int,
    carried: list[Carried] | None = None,
    save: bool = False,
) -> tuple[dict[str, Tensor], Tensor, tuple[bool, bool]]:
    """Set the clipped gradients of a step on every rank; ranks exchange them once.

    Args:
        carried: memory of each batch's rows from the step before, replaced here by the new one;
            None if nothing is carried.

    Returns:
        The losses of this rank's batches, the norm of the gradients before clipping, and the flags
        of `step_counts`.
    """
    if training.cfg.padding == "repeated":
        batches = [repeat_last(batch) for batch in batches]
    total, wishes = step_counts(training, batches, save)
    training.optimiser.zero_grad()
    sums: dict[str, Tensor] = {}
    befores: Sequence[Carried | None] = carried or [None] * len(batches)
    afters = []
    for batch, before in zip(batches, befores, strict=True):
        with contextlib.nullcontext() if batch.ends_step else training.accumulating():
            losses, state = compute_losses(training, batch, epoch, total, before)
            # DDP divides the sum of gradients by the number of ranks; this undoes it. If ranks step
            # on their own, it makes each gradient an estimate of that sum.
            (losses["loss"] * training.ranks.world_size).backward()
        sums = {name: sums.get(name, 0) + loss.detach() for name, loss in losses.items()}
        if carried is not None:
            afters.append(Carried(state, last_numbers(batch)))
    if carried is not None:
        carried[:] = afters
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    return sums, nn.utils.clip_grad_norm_(parameters, training.cfg.clip_norm), wishes


def train_step(
    training: Training,
    batches: Sequence[Batch],
    epoch: int,
    step: int,
    steps: int,
    carried: list[Carried] | None = None,
    save: bool = False,
) -> Step:
    """Take step `step` of the `steps` of an epoch, with all its batches on this rank.

    `carried` is as in `backward`; `save` asks all ranks for a checkpoint.

    Raises:
        AgreedError: losses or gradients are not finite; weights and optimiser are unchanged.
    """
    cfg = training.cfg
    seed_step(cfg.seed, epoch, step, training.ranks.rank)
    set_rates(training.optimiser, training.schedule(epoch + (step + 1) / steps))
    losses, gradient_norm, wishes = backward(training, batches, epoch, carried, save)
    norm, *values = torch.stack([gradient_norm, *losses.values()]).tolist()  # one wait
    if not math.isfinite(norm):
        mine = f"rank {training.ranks.rank}'s loss is {values[0]} in {_videos(batches)}"
        if training.ranks_differ:  # it may be finite on other ranks, which would not answer
            raise FloatingPointError(mine)
        raise AgreedError(
            f"the gradient is {norm} in epoch {epoch + 1}, step {step + 1}: "
            f"{'; '.join(training.ranks.gather(mine))}; lower train.lr ({cfg.lr}) or set "
            "train.amp=off; the last good checkpoint is in the run's folder"
        )
    training.optimiser.step()
    if training.ranks_differ:
        SYNCS[cfg.sync](trained(training.model), is_due(step, steps, cfg.sync_every))
    if training.average:
        training.average.update_parameters(training.model)
    rate = training.optimiser.param_groups[-1]["lr"]
    return Step(dict(zip(losses, values, strict=True)), norm, rate, *wishes)


def _videos(batches: Sequence[Batch]) -> str:
    """Name the videos of a step on this rank, for an error message."""
    targets = [target for batch in batches for target in batch.targets]
    names = list(dict.fromkeys(video_of(target.name) for target in targets))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"videos {', '.join(names[:SHOWN])}{more}" if names else "no video"


def seed_step(seed: int, epoch: int, step: int, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, step, rank]).generate_state(1)[0]))
