"""Time between the frames of a batch.

B blocks, T slots.
"""

import torch
from torch import Tensor

from bload import Batch
from datasets.annotations.frame_names import frame_number


def frame_gaps(batch: Batch, before_B: Tensor | None = None) -> Tensor:
    """Return the number of video frames since the previous frame of the row, ``(B, T)`` float.

    It is `FrameTargets.gap`, and 0 where the state starts anew and on padding.

    Args:
        before_B: not needed any more: a frame's gap is known before its row continues.
    """
    gap_BT = torch.zeros(batch.valid_BT.shape)
    gap_BT[batch.valid_BT] = torch.tensor([target.gap for target in batch.targets])
    return gap_BT.masked_fill(batch.start_BT, 0)


def last_numbers(batch: Batch) -> Tensor:
    """Return the number of the frame in the last slot of each row, ``(B,)`` float, 0 on padding.

    A video continues in the next step only if it fills its row to the end.
    """
    number_BT = torch.zeros(batch.valid_BT.shape)
    numbers = [frame_number(target.name) for target in batch.targets]
    number_BT[batch.valid_BT] = torch.tensor(numbers, dtype=torch.float32)
    return number_BT[:, -1]
