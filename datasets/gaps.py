"""Time between the frames of a batch.

B blocks, T slots.
"""

import torch
from torch import Tensor

from bload.batch.batch import Batch
from datasets.annotations.frame_names import frame_number


def frame_gaps(batch: Batch, before_B: Tensor | None = None) -> Tensor:
    """Return the number of video frames since the previous frame of the row, ``(B, T)`` float.

    Action Genome annotates frames at irregular distances, given by the numbers in their names. The
    gap is 0 where a video starts and on padding.

    Args:
        before_B: number of each row's last frame in the previous step, for rows that continue.
    """
    number_BT = frame_numbers(batch)
    before_B1 = number_BT[:, :1] if before_B is None else before_B[:, None]
    gap_BT = number_BT.diff(dim=1, prepend=before_B1)
    return gap_BT.masked_fill(batch.start_BT | ~batch.valid_BT, 0)


def frame_numbers(batch: Batch) -> Tensor:
    """Return the number of each frame in its video, ``(B, T)`` float, 0 on padding."""
    numbers = [frame_number(target.name) for target in batch.targets]
    number_BT = torch.zeros(batch.valid_BT.shape)
    number_BT[batch.valid_BT] = torch.tensor(numbers, dtype=torch.float32)
    return number_BT


def last_numbers(batch: Batch) -> Tensor:
    """Return the number of the frame in the last slot of each row, ``(B,)`` float, 0 on padding.

    A video continues in the next step only if it fills its row to the end.
    """
    return frame_numbers(batch)[:, -1]
