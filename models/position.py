"""Positions in the picture: DETR's sine encoding, and evenly spread anchor points.

N points, D width.
"""

import math

import torch
from torch import Tensor

FAR_WAVES = {"temperature": 10_000.0, "turns": 1.0}
"""Positions as in DETR, at the ends of tokens."""
NEAR_WAVES = {"temperature": 20.0, "turns": 2.0}
"""Positions whose similarity falls off within a quarter of the picture, for anchored networks."""


def sine_position(points: Tensor, dim: int, temperature: float, turns: float) -> Tensor:
    """Encode points (x, y) of 0..1: the row in the first half of D, the column in the second.

    Points ``(..., N, 2)`` are shares of the picture, so that all sizes have one scale; the position
    is ``(..., N, D)``. `dim` is D, a multiple of 4. `temperature` is the ratio of the fastest to
    the slowest wave and `turns` the turns of the fastest over the picture: 10,000 and 1 in DETR.

    Source: DETR (arXiv 2005.12872), ``PositionEmbeddingSine(normalize=True)``, whose pixel mask is
    here in the points; at the ends of tokens it is DETR's to rounding.
    """
    exponent = torch.arange(0, dim // 2, 2, device=points.device) / (dim // 2)
    frequency = 2 * math.pi * turns * temperature ** -exponent.to(points.dtype)

    def encode(share: Tensor) -> Tensor:
        angle = share[..., None] * frequency
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)

    x, y = points.unbind(-1)
    return torch.cat((encode(y), encode(x)), dim=-1)


def spread_points(count: int) -> Tensor:
    """Spread points (x, y) evenly over the picture, ``(N, 2)``, in rows of a grid.

    16 points make a 4 x 4 grid; for other counts rows differ by at most one point.
    """
    rows = max(1, round(math.sqrt(count)))
    points = []
    for row in range(rows):
        columns = count * (row + 1) // rows - count * row // rows
        points += [((column + 0.5) / columns, (row + 0.5) / rows) for column in range(columns)]
    return torch.tensor(points)
