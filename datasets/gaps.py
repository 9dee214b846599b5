"""Time between the frames of a batch.

B blocks, T slots.
"""

import torch
from torch import Tensor

from bload.batch import Batch
from datasets.annotations.frame_names import frame_number


def frame_gaps(batch: Batch) -> Tensor:
    """Return the number of video frames since the frame before, ``(B, T)`` float.

    Action Genome annotates frames at irregular distances, which follow from the numbers in their
    names. The gap is 0 where a segment starts and on padding.
    """
    valid_BT = batch.valid_BT
    numbers = [frame_number(target.name) for target in batch.targets]
    number_BT = torch.zeros(valid_BT.shape)
    number_BT[valid_BT] = torch.tensor(numbers, dtype=torch.float32)
    gap_BT = number_BT.diff(dim=1, prepend=number_BT[:, :1])
    return gap_BT.masked_fill(batch.start_BT | ~valid_BT, 0)
