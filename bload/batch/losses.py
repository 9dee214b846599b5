"""A mean over all frames of a step, on every rank, whatever each rank has of them."""

import torch
import torch.distributed as dist
from torch import Tensor

from bload.errors import InputError


def mean_loss(
    loss_sum: Tensor, count: int | Tensor, process_group: dist.ProcessGroup | None = None
) -> Tensor:
    """Return the loss whose gradient, averaged over ranks as DDP does, is that of the global mean.

        loss_sum = cross_entropy(logits_BT.flatten(0, 1), labels_BT.flatten(), reduction="sum")
        mean_loss(loss_sum, (labels_BT != -100).sum()).backward()

    Means per rank are wrong as soon as ranks have different numbers of frames, and NaN where one
    has none. This divides by the frames of all ranks, with one all-reduce of the count. The value
    on a rank is its share: the mean of those of all ranks is the global mean, which to log.

    Args:
        loss_sum: sum of the losses of this rank's frames, 0 for a batch without any.
        count: frames (or targets, or sequences) that this rank's sum is over. With several
            batches per optimiser step, give each the count of them all.
        process_group: as given to the loader; None takes the default group.

    Raises:
        InputError: `loss_sum` or `count` is no single number.
    """
    dtype = torch.promote_types(loss_sum.dtype, torch.float32)
    total = torch.as_tensor(count, dtype=dtype, device=loss_sum.device).clone()
    for name, value in (("loss_sum", loss_sum), ("count", total)):
        if value.dim() > 0:
            raise InputError(f"{name} has the shape {tuple(value.shape)}; give its sum")
    ranks = 1
    if dist.is_available() and dist.is_initialized():
        ranks = dist.get_world_size(process_group)
        dist.all_reduce(total, group=process_group)
    return loss_sum * (ranks / (total + (total == 0))).to(loss_sum.dtype)
