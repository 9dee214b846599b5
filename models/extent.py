"""Pictures of several sizes on one canvas, each in its upper left corner (a letterbox).

I pictures, H rows and W columns of cells (pixels or tokens), S = H * W cells row by row.

    |p p p . .|
    |p p p . .|   extent (x, y) = (0.6, 0.67): what the picture fills of the canvas
    |. . . . .|
"""

import torch
from torch import Tensor

SLIVER = 1e-3
"""What a cell must share with the picture, in cells: more than any rounding of an extent."""


def cells_inside(extent_I2: Tensor, height: int, width: int) -> Tensor:
    """Whether any of a cell lies in its picture, bool ``(I, H, W)``."""
    x_I, y_I = extent_I2.unbind(-1)
    inside_IW = torch.arange(width, device=x_I.device) < x_I[:, None] * width - SLIVER
    inside_IH = torch.arange(height, device=y_I.device) < y_I[:, None] * height - SLIVER
    return inside_IH[:, :, None] & inside_IW[:, None, :]


def cell_points(extent_I2: Tensor, height: int, width: int, place: float) -> Tensor:
    """Points (x, y) of the cells as shares of their picture, ``(I, S, 2)``.

    Of a cell on the border the part in the picture counts, so no point lies outside.

    Args:
        extent_I2: share of the canvas's (width, height) that each picture fills.
        height: rows of cells on the canvas.
        width: columns.
        place: in the cell; 0 is its left upper end, 0.5 its centre, 1 its right lower end.
    """
    x_I, y_I = extent_I2.unbind(-1)
    x_IHW, y_IHW = torch.broadcast_tensors(
        _along(x_I, width, place)[:, None, :], _along(y_I, height, place)[:, :, None]
    )
    return torch.stack((x_IHW, y_IHW), dim=-1).flatten(1, 2)


def _along(extent_I: Tensor, cells: int, place: float) -> Tensor:
    """Points of the cells along one side, ``(I, cells)``."""
    ends = torch.arange(cells + 1, device=extent_I.device) / (extent_I[:, None] * cells)
    ends = ends.clamp(max=1)
    return torch.lerp(ends[:, :-1], ends[:, 1:], place)
