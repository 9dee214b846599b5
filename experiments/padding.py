"""What stands in the padding of a block: nothing that is learned from, or its last frame again.

    |a a a b b . .|   masked    zeros that every loss leaves out
    |a a a b b b b|   repeated  b's last frame and target, trained on like any other frame

The second is what the paper's authors' released code does. B blocks, T slots.
"""

from dataclasses import replace

import torch

from bload.batch import Batch
from bload.errors import InputError
from bload.views import table_from_masks

PADDINGS = ("masked", "repeated")


def check_padding(name: str) -> None:
    """Raise `InputError` unless `name` is one of `PADDINGS`."""
    if name not in PADDINGS:
        raise InputError(f"padding is {name!r}; choose one of {', '.join(PADDINGS)}")


def repeat_last(batch: Batch) -> Batch:
    """The batch with each block filled up by its last frame and target, without padding left.

    The last segment of a block grows to its end; its slots there are valid and have the sequence
    and position of the frame that they repeat. Blocks without any frame, which are fillers, stay
    empty. Neither the batch nor its tensors are written to.
    """
    frames_B = batch.valid_BT.sum(1)
    slots_T = torch.arange(batch.valid_BT.shape[1], device=frames_B.device)
    from_BT = torch.minimum(slots_T, frames_B[:, None] - 1)  # -1 in fillers: as empty as any slot
    row_B1 = torch.arange(len(frames_B), device=frames_B.device)[:, None]

    valid_BT = batch.valid_BT[row_B1, from_BT]
    targets, end = [], 0
    for frames, slots in zip(frames_B.tolist(), valid_BT.sum(1).tolist(), strict=True):
        first, end = end, end + frames
        targets += [*batch.targets[first:end], *batch.targets[end - 1 : end] * (slots - frames)]
    return replace(
        batch,
        frames_BT=batch.frames_BT[row_B1, from_BT],
        targets=tuple(targets),
        valid_BT=valid_BT,
        segment_BT=batch.segment_BT[row_B1, from_BT],
        sequence_BT=batch.sequence_BT[row_B1, from_BT],
        position_BT=batch.position_BT[row_B1, from_BT],
        table=table_from_masks(valid_BT, batch.start_BT),
    )
