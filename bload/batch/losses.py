"""A mean over all frames of a step, on every rank, whatever each rank has of them."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.batch import Batch
from bload.errors import InputError


def mean_loss(
    loss_sum: Tensor,
    batch: Batch | Sequence[Batch],
    count: int | Tensor | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return the loss whose gradient, averaged over ranks as DDP does, is that of the global mean.

        loss_sum = cross_entropy(logits_BT.mT, batch.targets_BT, reduction="sum")
        mean_loss(loss_sum, batch).backward()

    Means per rank are wrong as soon as ranks have different numbers of frames, and NaN where one
    has none. This divides by the frames of all ranks, which a batch of a loader knows, or by the
    sum of `count` over ranks, one all-reduce. The value on a rank is its share: the mean of those
    of all ranks is the global mean, which to log.

    Args:
        loss_sum: sum of the losses of this rank's frames, 0 for a batch without any.
        batch: that it is of, or all batches of the step on this rank.
        count: what `loss_sum` is over if not frames, on this rank: ``len(batch.segments)``,
            ``(batch.targets_BT != -100).sum()``. With several batches in a step give the step, as
            `BlockLoader.by_step` has it, and the count of it all.
        process_group: as given to the loader; None takes the default group.

    Raises:
        InputError: `loss_sum` or `count` is no single number, or the count of one of several
            batches of a step.
    """
    batches = [batch] if isinstance(batch, Batch) else [*batch]
    dtype = torch.promote_types(loss_sum.dtype, torch.float32)
    for name, value in (("loss_sum", loss_sum), ("count", count)):
        if isinstance(value, Tensor) and value.dim() > 0:
            raise InputError(f"{name} has the shape {tuple(value.shape)}; give its sum")
    if count is None and batches[0].targets_S is not None:
        raise InputError("targets are per sequence; give their count too, len(batch.segments)")
    together = dist.is_available() and dist.is_initialized()
    ranks = dist.get_world_size(process_group) if together else 1
    if count is None and batches[0].frames_in_step and len(batches) == 1:
        return loss_sum * (ranks / batches[0].frames_in_step)
    if len(batches) < batches[0].batches_in_step:
        raise InputError(
            f"the batch is one of {batches[0].batches_in_step} of its step; give mean_loss all of "
            "them, as loader.by_step() has them, and the count of all"
        )
    if count is None:
        count = sum(int(one.segments.length_S.sum()) for one in batches)
    total = torch.as_tensor(count, dtype=dtype, device=loss_sum.device).clone()
    if together:
        dist.all_reduce(total, group=process_group)
    return loss_sum * (ranks / (total + (total == 0))).to(loss_sum.dtype)
