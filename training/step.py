"""Training: one step, one epoch.

B blocks, T slots.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bload import Batch, BlockLoader, InputError
from datasets.annotations.frame_names import video_of
from datasets.gaps import frame_gaps, last_numbers
from models import counts, to_tensors
from training.ablations import change_starts, repeat_last
from training.bar import open_bar, pace
from training.build import Training
from training.carried import Carried
from training.failures import Diverged
from training.optimiser import set_rates
from training.ranks import autocast
from training.sync import SYNCS, is_due, trained

SHOWN = 8
"""Videos that a sentence names."""


@dataclass(frozen=True, slots=True)
class Step:
    """Figures of one step: losses are sums over this rank's frames divided by global counts."""

    losses: dict[str, float]
    norm: float
    """Norm before clipping of the global gradient, or of this rank's if ranks are apart."""
    rate: float
    """Learning rate of all but the backbone."""
    stopping: bool
    """True on every rank if a signal has asked one of them to stop after this step."""
    progress: str = ""
    """What a bar would say after this step, on rank 0 where there is no terminal for one."""


def step_counts(training: Training, batches: Sequence[Batch]) -> tuple[Tensor, bool]:
    """Divisors of the losses of a step: counts of all its batches, on all ranks.

    Returns:
        The counts, and whether a signal has asked any rank to stop, which the same sum tells.
    """
    objects = [len(frame.object_classes_M) for batch in batches for frame in batch.targets]
    wish = torch.tensor([float(training.ranks.stop.number)], dtype=torch.float64)
    found = training.ranks.sum(torch.cat([counts(objects, training.model.queries), wish]))
    return found[:-1], bool(found[-1])


def compute_losses(
    training: Training, batch: Batch, epoch: int, total: Tensor, before: Carried | None = None
) -> tuple[dict[str, Tensor], Any]:
    """The losses of a batch: sums over its frames, divided by the targets of the whole step.

    Args:
        before: what the rows remember, if they go on from the step before.

    Returns:
        The losses, and the state of the memory after the batch.
    """
    cfg, device = training.cfg, training.ranks.device
    state, number_B = (before.state, before.number_B) if before else (None, None)
    gap_BT = frame_gaps(batch, number_B).to(device, non_blocking=True)
    batch, extent_BT2 = training.letterbox(batch, device, epoch)
    targets = to_tensors(batch.targets, device)
    start_BT = change_starts(batch.start_BT, batch.valid_BT, cfg.starts, cfg.seed)
    with autocast(cfg.amp, device):
        outputs = training.parallel(
            batch.frames_BT,
            start_BT,
            batch.valid_BT,
            bptt=cfg.bptt,
            extent_BT2=extent_BT2,
            gap_BT=gap_BT,
            state=state,
        )
    return training.criterion(outputs, targets, batch.valid_BT, total), outputs.state


def backward(
    training: Training, batches: Sequence[Batch], epoch: int, carried: list[Carried] | None = None
) -> tuple[dict[str, Tensor], Tensor, bool]:
    """Set the gradients of a step, clipped, on every rank; they are exchanged once.

    Args:
        carried: what the rows of each batch remember from the step before, which is replaced by
            what they remember now; None if nothing goes on from step to step.

    Returns:
        The losses of this rank's batches, the norm of the gradients before clipping, and whether
        the ranks are to stop after this step.
    """
    if training.cfg.padding == "repeated":
        batches = [repeat_last(batch) for batch in batches]
    total, stopping = step_counts(training, batches)
    training.optimiser.zero_grad()
    sums: dict[str, Tensor] = {}
    befores: Sequence[Carried | None] = carried or [None] * len(batches)
    afters = []
    for batch, before in zip(batches, befores, strict=True):
        with contextlib.nullcontext() if batch.ends_step else training.accumulating():
            losses, state = compute_losses(training, batch, epoch, total, before)
            # DDP divides the sum of gradients by the number of ranks; this takes it back. Of ranks
            # that are apart it makes each gradient an estimate of that sum.
            (losses["loss"] * training.ranks.world_size).backward()
        sums = {name: sums.get(name, 0) + loss.detach() for name, loss in losses.items()}
        if carried is not None:
            afters.append(Carried(state, last_numbers(batch)))
    if carried is not None:
        carried[:] = afters
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    return sums, nn.utils.clip_grad_norm_(parameters, training.cfg.clip_norm), stopping


def train_step(
    training: Training,
    batches: Sequence[Batch],
    epoch: int,
    step: int,
    steps: int,
    carried: list[Carried] | None = None,
) -> Step:
    """Take step number `step` of the `steps` of an epoch, with all its batches on this rank.

    `carried` as in `backward`.

    Raises:
        Diverged: losses or gradient are not finite. Weights and optimiser are as before then.
    """
    cfg = training.cfg
    seed_step(cfg.seed, epoch, step, training.ranks.rank)
    set_rates(training.optimiser, training.schedule(epoch + (step + 1) / steps))
    here = f"epoch {epoch + 1}, step {step + 1}"
    try:
        losses, gradient_norm, stopping = backward(training, batches, epoch, carried)
    except InputError as error:
        raise Diverged(f"{error}; {here}, in {_videos(batches)}") from error
    norm, *values = torch.stack([gradient_norm, *losses.values()]).tolist()  # one wait
    if not math.isfinite(norm):
        mine = f"rank {training.ranks.rank}'s loss is {values[0]} in {_videos(batches)}"
        all_know = not training.apart  # else it may be finite on others, who would not answer
        says = training.ranks.gather(mine) if all_know else [mine]
        raise Diverged(
            f"the gradient is {norm} in {here}: {'; '.join(says)}; "
            f"lower train.lr ({cfg.lr}) or set train.amp=off"
        )
    training.optimiser.step()
    if training.apart:
        SYNCS[cfg.sync](trained(training.model), is_due(step, steps, cfg.sync_every))
    if training.average:
        training.average.update_parameters(training.model)
    rate = training.optimiser.param_groups[-1]["lr"]
    return Step(dict(zip(losses, values, strict=True)), norm, rate, stopping)


def _videos(batches: Sequence[Batch]) -> str:
    """The videos of a step on this rank, for an error message."""
    targets = [target for batch in batches for target in batch.targets]
    names = list(dict.fromkeys(video_of(target.name) for target in targets))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"videos {', '.join(names[:SHOWN])}{more}" if names else "no video"


def train_epoch(
    training: Training,
    loader: BlockLoader,
    epoch: int,
    sums: dict[str, float],
    carried: list[Carried] | None = None,
    first: bool = False,
) -> Iterator[Step]:
    """Take the steps of an epoch that `loader` has left, and hand over the figures of each.

    Args:
        carried: as in `backward`; empty at the beginning of an epoch.
        first: True if data workers are still to be started. The seconds until those of every rank
            have their first batch are added to ``start`` then, and neither to ``seconds`` nor to
            ``waiting``.
        sums: this rank's losses, ``seconds`` and ``waiting`` (for data) are added to it. The time
            that the caller takes between steps counts as the epoch's.

    On a terminal a bar shows the loss (as rank 0 sees it), frames a second over all ranks and the
    time left to the end of the run, at the pace of this epoch and without evaluations after it.
    """
    ranks, steps, before = training.ranks, loader.steps, loader.step
    ranks.at(f"epoch {epoch + 1}, waiting for step {before + 1}")
    by_step = loader.by_step()
    if first and training.cfg.workers:
        began = time.perf_counter()
        by_step = itertools.chain([*itertools.islice(by_step, 1)], by_step)
        ranks.at(f"epoch {epoch + 1}, waiting for the others' data workers")
        ranks.barrier()  # else a rank would wait for a slower one within its first step
        add(sums, {"start": time.perf_counter() - began})
    with open_bar(
        f"epoch {epoch + 1}/{training.cfg.epochs}", steps, ranks.is_first, done=before
    ) as bar:
        frames, began = 0, time.perf_counter()
        started = asked = began
        for batches in by_step:
            ranks.at(f"epoch {epoch + 1}, step {loader.step}")
            sums["waiting"] += time.perf_counter() - asked
            step = train_step(training, batches, epoch, loader.step - 1, steps, carried)
            add(sums, step.losses)
            now = time.perf_counter()
            sums["seconds"] += now - began
            if said := training.first_step.add(now - began):
                bar.write(said)
            began = now
            frames += batches[0].step_frames
            loss = step.losses["loss"] * ranks.world_size
            ahead = (training.cfg.epochs - epoch) * steps - loader.step
            text = bar_text(loss, frames, now - started, loader.step - before, ahead)
            bar.set_postfix_str(text, refresh=False)
            bar.update()
            yield replace(step, progress=text) if bar.disable and ranks.is_first else step
            ranks.at(f"epoch {epoch + 1}, waiting for step {loader.step + 1}")
            asked = time.perf_counter()
        sums["seconds"] += time.perf_counter() - began


def bar_text(loss: float, frames: int, seconds: float, done: int, ahead: int) -> str:
    """What the bar says when `done` steps have taken `seconds` and the run has `ahead` to go."""
    return f"loss {loss:.2f}, {pace(frames, seconds, done, ahead)} in all"


def add(sums: dict[str, float], values: Mapping[str, float]) -> None:
    """Add `values` to `sums` by name, in place."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value


def seed_step(seed: int, epoch: int, step: int, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, step, rank]).generate_state(1)[0]))
