"""Where a token stands in the picture: DETR's sine encoding.

H rows and W columns of tokens, S = H * W tokens row by row, D width.
"""

import math

import torch
from torch import Tensor

TEMPERATURE = 10_000.0


def sine_position(height: int, width: int, dim: int, like: Tensor) -> Tensor:
    """Encode a grid of tokens: the first half of D tells the row, the second half the column.

    Rows and columns are scaled to 0..2 pi, so that pictures of different sizes share one scale.

    Args:
        height: rows of tokens.
        width: columns of tokens.
        dim: D, a multiple of 4.
        like: a tensor whose device and dtype the result takes.

    Returns:
        position ``(S, D)``.

    Source: DETR (arXiv 2005.12872), ``PositionEmbeddingSine(normalize=True)``, without a pixel
    mask since the frames of a block have one size.
    """
    half = dim // 2
    exponent = 2 * torch.arange(0, half, 2, device=like.device, dtype=torch.float32) / (2 * half)
    frequency = TEMPERATURE ** (-2 * exponent)

    def encode(count: int) -> Tensor:
        place = torch.arange(1, count + 1, device=like.device, dtype=torch.float32) / count
        angle = 2 * math.pi * place[:, None] * frequency
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)

    rows = encode(height)[:, None].expand(height, width, half)
    columns = encode(width)[None].expand(height, width, half)
    return torch.cat((rows, columns), dim=-1).flatten(0, 1).to(like.dtype)
