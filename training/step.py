"""Training: one step, and the states that rows carry from step to step.

Row states, under ``loader.long=carry``, are the network's state after each batch of a step: lists
and tuples of tensors ``(B, ...)`` and None. They are empty where every row begins anew: under other
loaders, and at the beginning of an epoch. B rows of a batch.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map, tree_map_only

from bload import Batch, BlockLoader, InputError
from datasets.annotations.frame_names import video_of
from models.criterion import loss_divisors
from models.targets import to_tensors
from training.build import Training
from training.ranks import autocast
from training.stopping import AgreedError

RowStates = Sequence[Any]


class StepPosition(NamedTuple):
    """Where a step is in its run."""

    epoch: int
    step_index: int
    """In the epoch, from 0."""
    epochs_done: float
    """Epochs, with a fraction, that are done after it."""

    @classmethod
    def after(cls, loader: BlockLoader) -> Self:
        """Return the position of the step that a loader has given last."""
        epoch, share_done = loader.epoch, loader.sampler.share_done(loader.step)
        return cls(epoch, loader.step - 1, epoch + float(share_done))


class StepFigures(NamedTuple):
    """Figures of one step."""

    losses: dict[str, float]
    """This rank's parts of the means over the step; they add up over ranks."""
    grad_norm: float
    """Norm of the synchronised gradient before clipping; this rank's own if weights differ."""
    lr: float
    """Rate of the parameters with ``train.lr``."""


def train_step(
    training: Training, batches: list[Batch], position: StepPosition, row_states: RowStates = ()
) -> tuple[StepFigures, RowStates]:
    """Take a step with all its batches on this rank; return its figures and the new row states.

    Raises:
        InputError: losses or gradients are not finite; weights and moments are unchanged.
    """
    cfg, ranks, model = training.cfg.train, training.ranks, training.model
    # Dropout is a function of the step, so that resuming needs no random state.
    entropy = [cfg.seed, position.epoch, position.step_index, ranks.rank]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
    rate = training.set_rates(position.epochs_done)
    model.zero_grad()
    batches = [training.ablation(batch) for batch in batches]
    objects = [len(frame.object_classes_M) for batch in batches for frame in batch.targets]
    divisors = ranks.sum(loss_divisors(objects, model.queries))
    accumulating = getattr(training.network, "no_sync", nullcontext)  # DDP sums once a step
    sums, states = dict[str, Tensor](), []
    for batch, state in zip(batches, row_states or [None] * len(batches), strict=True):
        with nullcontext() if batch.ends_step else accumulating():
            inputs, annotations = training.to_inputs(batch, position.epoch)
            targets = to_tensors(annotations, ranks.device)
            with autocast(cfg.amp, ranks.device):
                outputs = training.network(inputs, state)
            losses = training.criterion(outputs, targets, batch.valid_BT, divisors)
            # DDP divides gradients by the number of ranks; without DDP they estimate that of all.
            (losses["loss"] * ranks.world_size).backward()
        sums = {name: sums.get(name, 0) + loss.detach() for name, loss in losses.items()}
        states.append(outputs.state)
    norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.clip_norm)
    norm, *values = torch.stack([norm, *sums.values()]).tolist()  # synchronises
    if not math.isfinite(norm):
        raise diverged(norm, values[0], batches, position, training)
    for optimiser in training.optimisers:
        optimiser.step()
    training.after_step()
    return StepFigures(dict(zip(sums, values, strict=True)), norm, rate), states


def diverged(
    norm: float, loss: float, batches: Sequence[Batch], position: StepPosition, training: Training
) -> InputError:
    """Return the error of a step whose gradient is not finite, which names its first videos."""
    targets = [target for batch in batches for target in batch.targets]
    names = list(dict.fromkeys(video_of(target.name) for target in targets))
    return (InputError if training.has_own_weights else AgreedError)(
        f"the gradient is {norm} in epoch {position.epoch + 1}, step {position.step_index + 1}: "
        f"rank {training.ranks.rank}'s loss is {loss} in videos {', '.join(names[:8])}; lower "
        f"train.lr ({training.cfg.train.lr}) or set train.amp=off; the last good checkpoint is in "
        "the run's folder, and what other ranks say in its rank*.log"
    )


def pack_row_states(tree: Any) -> Any:
    """Convert row states to lists of tensors on the host: a checkpoint refuses named tuples."""
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return [pack_row_states(part) for part in tree] if isinstance(tree, list | tuple) else tree


def open_row_states(
    saved: Sequence[Sequence[Any]], loader: BlockLoader, device: torch.device
) -> RowStates:
    """Restore the states of this rank's rows from what any number of ranks saved.

    Ranks are dealt the rows of a step like cards: row r is row r // W of rank r % W, on W ranks.

    Args:
        saved: `pack_row_states` of every rank that saved; empty at the start of an epoch.
    """
    # All rows of the first rank that saved, then all of the second, and so on.
    states = [state for rank_states in saved for state in rank_states]
    if not states:
        return []
    all_states = tree_map(lambda *rows: None if rows[0] is None else torch.cat(rows), *states)
    sampler, rows_R = loader.sampler, loader.sampler.planner.blocks_per_step // len(saved)
    own_rows = torch.arange(sampler.rank, sampler.planner.blocks_per_step, sampler.world_size)
    index = own_rows % len(saved) * rows_R + own_rows // len(saved)

    def select(part: Tensor) -> Any:
        return tree_map_only(Tensor, lambda rows: rows[part].to(device), all_states)

    return [select(part) for part in index.split(sampler.planner.blocks_per_batch)]
