"""Training: one step.

B blocks, T slots.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bload import Batch, InputError
from datasets.annotations.frame_names import video_of
from models.criterion import loss_divisors
from models.targets import to_tensors
from training.build import Training
from training.optimiser import set_rates
from training.ranks import autocast

MAX_VIDEOS_SHOWN = 8
"""Videos named in an error message."""


class Position(NamedTuple):
    """Place of a step in its run."""

    epoch: int
    step_index: int
    """In the epoch, from 0."""
    epochs_done: float
    """Epochs, with a fraction, that are done after it."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Figures of one step."""

    losses: dict[str, float]
    """This rank's parts of the means over the step; they add up over ranks."""
    norm: float
    """Norm of the synchronised gradient before clipping; this rank's own if weights differ."""
    lr: float
    """Learning rate of the optimiser's last group, the one with ``train.lr``."""


def train_step(
    training: Training,
    batches: Sequence[Batch],
    position: Position,
    row_states: list[Any] | None = None,
) -> tuple[StepFigures, list[Any] | None]:
    """Take a step with all its batches on this rank.

    Args:
        row_states: state of the network after each batch of the step before, empty at the
            beginning, if rows go on from step to step; None if every row begins anew.

    Returns:
        Its figures, and the row states for the next step.

    Raises:
        InputError: losses or gradients are not finite; weights and moments are unchanged.
    """
    cfg, ranks = training.cfg, training.ranks
    seed_step(cfg.seed, position, ranks.rank)
    set_rates(training.optimiser, training.rate_schedule(position.epochs_done))
    losses, gradient_norm, row_states = backward(training, batches, position.epoch, row_states)
    norm, *values = torch.stack([gradient_norm, *losses.values()]).tolist()  # synchronises
    if not math.isfinite(norm):
        raise InputError(
            f"the gradient is {norm} in epoch {position.epoch + 1}, step "
            f"{position.step_index + 1}: rank {ranks.rank}'s loss is {values[0]} in "
            f"{_videos(batches)}; lower train.lr ({cfg.lr}) or set train.amp=off; the last good "
            "checkpoint is in the run's folder"
        )
    training.optimiser.step()
    training.after_step()
    if training.average:
        training.average.update_parameters(training.model)
    lr = training.optimiser.param_groups[-1]["lr"]
    return StepFigures(dict(zip(losses, values, strict=True)), norm, lr), row_states


def backward(
    training: Training, batches: Sequence[Batch], epoch: int, row_states: list[Any] | None = None
) -> tuple[dict[str, Tensor], Tensor, list[Any] | None]:
    """Set the clipped gradients of a step on every rank; ranks exchange them once.

    Returns:
        The losses of this rank's batches, the norm of the gradients before clipping, and the row
        states as in `train_step`.
    """
    batches = [training.ablation(batch) for batch in batches]
    objects = [len(frame.object_classes_M) for batch in batches for frame in batch.targets]
    divisors = training.ranks.sum(loss_divisors(objects, training.model.queries))
    training.optimiser.zero_grad()
    sums: dict[str, Tensor] = {}
    states = []
    for batch, state in zip(batches, row_states or [None] * len(batches), strict=True):
        with contextlib.nullcontext() if batch.ends_step else training.accumulating():
            losses, state = compute_losses(training, batch, epoch, divisors, state)
            # DDP divides the sum of gradients by the number of ranks; this undoes it. Ranks that
            # step on their own thus estimate the gradient of all.
            (losses["loss"] * training.ranks.world_size).backward()
        sums = {name: sums.get(name, 0) + loss.detach() for name, loss in losses.items()}
        states.append(state)
    norm = nn.utils.clip_grad_norm_(training.model.parameters(), training.cfg.clip_norm)
    return sums, norm, None if row_states is None else states


def compute_losses(
    training: Training, batch: Batch, epoch: int, divisors: Tensor, state: Any = None
) -> tuple[dict[str, Tensor], Any]:
    """Compute the losses of a batch: sums over its frames, divided by `loss_divisors` of the step.

    Returns:
        The losses, and the state of the network after the batch.
    """
    frames, device_batch = training.inputs(batch, epoch)
    targets = to_tensors(device_batch.targets, training.inputs.device)
    with autocast(training.cfg.amp, training.inputs.device):
        outputs = training.parallel(frames, state)
    return training.criterion(outputs, targets, batch.valid_BT, divisors), outputs.state


def _videos(batches: Sequence[Batch]) -> str:
    """Name the videos of a step on this rank, for an error message."""
    targets = [target for batch in batches for target in batch.targets]
    names = list(dict.fromkeys(video_of(target.name) for target in targets))
    suffix = f" and {len(names) - MAX_VIDEOS_SHOWN} more" if len(names) > MAX_VIDEOS_SHOWN else ""
    return f"videos {', '.join(names[:MAX_VIDEOS_SHOWN])}{suffix}" if names else "no video"


def seed_step(seed: int, position: Position, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    entropy = [seed, position.epoch, position.step_index, rank]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
