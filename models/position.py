"""Where a point stands in the picture: DETR's sine encoding, and a spread of anchor points.

I pictures, H rows and W columns of tokens, S = H * W tokens row by row, N points, D width.
"""

import math

import torch
from torch import Tensor

from models.extent import cell_points

FAR_WAVES = {"temperature": 10_000.0, "turns": 1.0}
"""Positions as in DETR, on `token_ends`."""
NEAR_WAVES = {"temperature": 20.0, "turns": 2.0}
"""Positions whose likeness falls off within a quarter of the picture, for anchored networks."""


def token_centres(height: int, width: int, like: Tensor, extent_I2: Tensor | None = None) -> Tensor:
    """Centres (x, y) of the tokens as shares of the picture, ``(S, 2)``, row by row.

    With the extents of pictures on a larger canvas ``(I, S, 2)``, see `models.extent`.
    """
    return _token_points(height, width, like, extent_I2, place=0.5)


def token_ends(height: int, width: int, like: Tensor, extent_I2: Tensor | None = None) -> Tensor:
    """Right and lower ends (x, y) of the tokens, in the shapes of `token_centres`.

    DETR counts tokens from 1 to the last and divides by their number, so this is where its weights
    expect them: half a token beyond the centres.
    """
    return _token_points(height, width, like, extent_I2, place=1.0)


def _token_points(
    height: int, width: int, like: Tensor, extent_I2: Tensor | None, place: float
) -> Tensor:
    if extent_I2 is not None:
        return cell_points(extent_I2, height, width, place).to(like.dtype)
    rows = (torch.arange(height, device=like.device, dtype=torch.float32) + place) / height
    columns = (torch.arange(width, device=like.device, dtype=torch.float32) + place) / width
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack((x, y), dim=-1).flatten(0, 1).to(like.dtype)


def sine_position(points: Tensor, dim: int, temperature: float, turns: float) -> Tensor:
    """Encode points (x, y) of 0..1: the first half of D tells the row, the second the column.

    Args:
        points: ``(..., N, 2)`` as shares of the picture, so that all sizes have one scale.
        dim: D, a multiple of 4.
        temperature: ratio of the fastest to the slowest wave; 10,000 in DETR, 20 in DAB-DETR.
        turns: how often the fastest wave turns over the picture; 1 in DETR.

    Returns:
        position ``(..., N, D)``.

    Source: DETR (arXiv 2005.12872), ``PositionEmbeddingSine(normalize=True)``, whose pixel mask is
    here in the points; on `token_ends` it is DETR's to rounding.
    """
    exponent = torch.arange(0, dim // 2, 2, device=points.device) / (dim // 2)
    frequency = 2 * math.pi * turns * temperature ** -exponent.to(points.dtype)

    def encode(place: Tensor) -> Tensor:
        angle = place[..., None] * frequency
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)

    x, y = points.unbind(-1)
    return torch.cat((encode(y), encode(x)), dim=-1)


def spread_points(count: int) -> Tensor:
    """Points (x, y) spread evenly over the picture, ``(N, 2)``: rows of a grid, as full as can be.

    With 16 points it is a 4 x 4 grid; other counts give rows that differ by one point at most.
    """
    rows = max(1, round(math.sqrt(count)))
    points = []
    for row in range(rows):
        columns = count * (row + 1) // rows - count * row // rows
        points += [((column + 0.5) / columns, (row + 0.5) / rows) for column in range(columns)]
    return torch.tensor(points)
