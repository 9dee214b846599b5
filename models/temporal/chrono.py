"""Gates that begin with memories of every length (chrono initialisation, arXiv 1804.11188).

D width.
"""

import torch
from torch import Tensor

LONGEST_MEMORY = 94
"""Frames that the slowest channels remember before training: a full block."""


def gate_bias(width: int) -> Tensor:
    """Biases ``(D,)`` of update gates, for memories from 1 to `LONGEST_MEMORY` frames.

    A channel whose gate is z forgets like (1 - z)^t, which is 1 / z frames; these are spread evenly
    on a logarithmic scale. The shortest is 1.2 frames, since a gate of 1 could not learn.
    """
    memories_D = torch.logspace(0, 1, width, base=LONGEST_MEMORY) + 0.2
    return -torch.log(memories_D - 1)
