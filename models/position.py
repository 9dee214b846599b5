"""Where a point stands in the picture: DETR's sine encoding, and a spread of anchor points.

H rows and W columns of tokens, S = H * W tokens row by row, N points, D width.
"""

import math

import torch
from torch import Tensor


def token_centres(height: int, width: int, like: Tensor) -> Tensor:
    """Centres (x, y) of the tokens as shares of the picture, ``(S, 2)``, row by row."""
    return _token_points(height, width, like, place=0.5)


def token_ends(height: int, width: int, like: Tensor) -> Tensor:
    """Right and lower ends (x, y) of the tokens, ``(S, 2)``, row by row.

    DETR counts tokens from 1 to the last and divides by their number, so this is where its weights
    expect them: half a token beyond the centres.
    """
    return _token_points(height, width, like, place=1.0)


def _token_points(height: int, width: int, like: Tensor, place: float) -> Tensor:
    rows = (torch.arange(height, device=like.device, dtype=torch.float32) + place) / height
    columns = (torch.arange(width, device=like.device, dtype=torch.float32) + place) / width
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack((x, y), dim=-1).flatten(0, 1).to(like.dtype)


def sine_position(points_N2: Tensor, dim: int, temperature: float, turns: float) -> Tensor:
    """Encode points (x, y) of 0..1: the first half of D tells the row, the second the column.

    Args:
        points_N2: points as shares of the picture, so that pictures of all sizes have one scale.
        dim: D, a multiple of 4.
        temperature: ratio of the fastest to the slowest wave; 10,000 in DETR, 20 in DAB-DETR.
        turns: how often the fastest wave turns over the picture; 1 in DETR.

    Returns:
        position ``(N, D)``.

    Source: DETR (arXiv 2005.12872), ``PositionEmbeddingSine(normalize=True)``, without a pixel
    mask since the frames of a block have one size; on `token_ends` it is DETR's to rounding.
    """
    exponent = torch.arange(0, dim // 2, 2, device=points_N2.device) / (dim // 2)
    frequency = 2 * math.pi * turns * temperature ** -exponent.to(points_N2.dtype)

    def encode(place_N: Tensor) -> Tensor:
        angle = place_N[:, None] * frequency
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)

    x_N, y_N = points_N2.unbind(-1)
    return torch.cat((encode(y_N), encode(x_N)), dim=-1)


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
