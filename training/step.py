"""Training: one step, and the states that rows carry from step to step.

Row states, under ``loader.long=carry``, are the network's state after each batch of a step: lists
and tuples of tensors ``(B, ...)`` and None. B rows of a batch.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map, tree_map_only

from bload import Batch, BlockLoader, InputError
from datasets.annotations.frame_names import video_of
from models.criterion import loss_divisors
from models.targets import to_tensors
from training.build import Training
from training.optimiser import rate_factor, set_rates
from training.ranks import autocast


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
    """Rate of the parameters with ``train.lr``."""


def train_step(
    training: Training,
    batches: Sequence[Batch],
    position: Position,
    row_states: list[Any] | None = None,
) -> tuple[StepFigures, list[Any] | None]:
    """Take a step with all its batches on this rank; ranks exchange gradients once.

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
    progress = position.epochs_done, cfg.epochs
    rate = rate_factor(cfg.schedule, *progress, cfg.warmup_epochs, cfg.step_at)
    set_rates(training.optimiser, rate)
    training.optimiser.zero_grad()
    batches = [training.ablation(batch) for batch in batches]
    objects = [len(frame.object_classes_M) for batch in batches for frame in batch.targets]
    divisors = ranks.sum(loss_divisors(objects, training.model.queries))
    sums, states = dict[str, Tensor](), []
    for batch, state in zip(batches, row_states or [None] * len(batches), strict=True):
        with nullcontext() if batch.ends_step else training.accumulating():
            frames, device_batch = training.inputs(batch, position.epoch)
            targets = to_tensors(device_batch.targets, ranks.device)
            with autocast(cfg.amp, ranks.device):
                outputs = training.parallel(frames, state)
            losses = training.criterion(outputs, targets, batch.valid_BT, divisors)
            # DDP divides the sum of gradients by the number of ranks; this undoes it. Ranks that
            # step on their own thus estimate the gradient of all.
            (losses["loss"] * ranks.world_size).backward()
        sums = {name: sums.get(name, 0) + loss.detach() for name, loss in losses.items()}
        states.append(outputs.state)
    norm = nn.utils.clip_grad_norm_(training.model.parameters(), cfg.clip_norm)
    norm, *values = torch.stack([norm, *sums.values()]).tolist()  # synchronises
    if not math.isfinite(norm):
        raise diverged(norm, values[0], batches, position, training)
    training.optimiser.step()
    training.synchronise()
    figures = StepFigures(dict(zip(sums, values, strict=True)), norm, rate * cfg.lr)
    return figures, None if row_states is None else states


def seed_step(seed: int, position: Position, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    entropy = [seed, position.epoch, position.step_index, rank]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))


def diverged(
    norm: float, loss: float, batches: Sequence[Batch], position: Position, training: Training
) -> InputError:
    """Return the error of a step whose gradient is not finite, which names some of its videos."""
    targets = [target for batch in batches for target in batch.targets]
    names = list(dict.fromkeys(video_of(target.name) for target in targets))
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return InputError(
        f"the gradient is {norm} in epoch {position.epoch + 1}, step {position.step_index + 1}: "
        f"rank {training.ranks.rank}'s loss is {loss} in videos {', '.join(names[:8])}{more}; "
        f"lower train.lr ({training.cfg.lr}) or set train.amp=off; the last good checkpoint is in "
        "the run's folder"
    )


def pack_row_states(tree: Any) -> Any:
    """Convert row states to lists of tensors on the host: a checkpoint refuses named tuples."""
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return [pack_row_states(part) for part in tree] if isinstance(tree, list | tuple) else tree


def open_row_states(
    saved: Sequence[Sequence[Any] | None], loader: BlockLoader, device: torch.device
) -> list[Any] | None:
    """Restore the states of this rank's rows from what any number of ranks saved.

    Ranks are dealt the rows of a step like cards: row r is row r // W of rank r % W, on W ranks.

    Args:
        saved: `pack_row_states` of every rank that saved; empty at the start of an epoch.
        device: of the model.

    Returns:
        One state per batch of a step; none at the start of an epoch; None if the plan never
        carries.
    """
    if not loader.plan.carries:
        return None
    # All rows of the first rank that saved, then all of the second, and so on.
    states = [state for rank_states in saved for state in rank_states or ()]
    if not states:
        return []
    all_states = tree_map(lambda *rows: None if rows[0] is None else torch.cat(rows), *states)
    sampler, rows_R = loader.sampler, loader.sampler.epochs.blocks_per_step // len(saved)
    own_rows = torch.arange(sampler.rank, sampler.epochs.blocks_per_step, sampler.world_size)
    index = own_rows % len(saved) * rows_R + own_rows // len(saved)

    def select(part: Tensor) -> Any:
        return tree_map_only(Tensor, lambda rows: rows[part].to(device), all_states)

    return [select(part) for part in index.split(sampler.epochs.blocks_per_batch)]
