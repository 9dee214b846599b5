"""Mean loss over all frames of a step on all ranks, whatever the number of frames per rank."""

from collections.abc import Sequence
from math import inf

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.batch import Batch
from bload.batch.step import check_group, has_group, require_step
from bload.batch.trees import exact_dtype
from bload.errors import InputError


def mean_loss(
    loss_sum: Tensor,
    batch: Batch | Sequence[Batch],
    count: int | Tensor | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return the loss whose gradient, averaged over ranks by DDP, is that of the global mean.

        loss_sum = cross_entropy(logits_BT.mT, batch.targets_BT, reduction="sum")
        mean_loss(loss_sum, batch).backward()

    A mean per rank is wrong if ranks have different numbers of frames, and NaN on a rank without
    any. This function divides by the frames of all ranks, which a loader's batch knows, or by the
    sum of `count` over ranks, by one all-reduce. The mean of the results over ranks is global.

    Args:
        loss_sum: sum of this rank's losses, 0 without frames; a mean would be divided twice.
        batch: the batch of these frames, or all batches of the step on this rank.
        count: number of terms in `loss_sum` on this rank, if not frames: ``len(batch.segments)``,
            ``(batch.targets_BT != -100).sum()``. If a step has several batches, pass them all, as
            from `BlockLoader.by_step`, and their total count.
        process_group: group of the loader, used with `count`; None takes the default group.

    Raises:
        InputError: `loss_sum` is not a tensor of one number, or `count` not one number; the batch
            comes from no loader; `count` is missing for targets per sequence, or given with one of
            several batches of a step, ``balance="uneven"``, or a group of another size.
    """
    batches = [batch] if isinstance(batch, Batch) else batch if isinstance(batch, Sequence) else []
    if not batches or not all(isinstance(each, Batch) for each in batches):
        raise InputError(f"batch is {batch!r:.60}; give a batch, or a list of those of the step")
    if not isinstance(loss_sum, Tensor):
        raise InputError(
            f"loss_sum is {loss_sum!r}; give a tensor, for a batch without frames the sum over its "
            "empty or masked losses, so that every rank has gradients"
        )
    for name, value in (("loss_sum", loss_sum), ("count", count)):
        if isinstance(value, Tensor) and value.dim() > 0:
            raise InputError(f"{name} has the shape {tuple(value.shape)}; give its sum")
    if not isinstance(count, Tensor | None) and not (  # a tensor's value would be waited for
        hasattr(count, "__float__") and 0 <= count < inf
    ):
        raise InputError(f"count is {count!r}; give the number of terms, from 0 on")
    if count is None and batches[0].targets_S is not None:
        raise InputError(
            "targets are per sequence; give the count too: len(batch.segments) for a mean over "
            "sequences, batch.valid_BT.sum() over frames"
        )
    step = require_step(batches[0].step)
    if count is None and len(batches) in (1, step.batches):
        return loss_sum * (step.world_size / step.frames)
    if len(batches) < step.batches:
        raise InputError(
            f"the batch is one of {step.batches} of its step; give mean_loss all of them, as "
            "loader.by_step() has them, and the count of all"
        )
    check_group(step, process_group)
    if count is None:
        count = sum(int(batch.segments.length_S.sum()) for batch in batches)
    device = loss_sum.device
    total = torch.as_tensor(count, dtype=exact_dtype(device), device=device).clone()
    if has_group():
        dist.all_reduce(total, group=process_group)
    share = step.world_size / (total + (total == 0))
    return loss_sum * share.to(torch.promote_types(loss_sum.dtype, torch.float32))
