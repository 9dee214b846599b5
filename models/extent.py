"""Cells (pixels or tokens) of pictures, which may differ in size on one canvas: a letterbox.

I pictures, H rows and W columns of cells, S = H * W cells row by row.

    |p p p . .|
    |p p p . .|   extent (x, y) = (0.6, 0.67): the share of the canvas that the picture fills,
    |. . . . .|   from its upper left corner on
"""

import torch
from torch import Tensor

SLIVER = 1e-3
"""Least share of a cell inside the picture for it to count, above the rounding of extents."""
CENTRES, ENDS = 0.5, 1.0
"""Offsets in a cell: its centre, and its lower right end. DETR counts tokens from 1 to the last and
divides by their number, so its weights expect positions at the ends, half a token further."""


def cells_inside(extent_I2: Tensor, height: int, width: int) -> Tensor:
    """Return which cells lie in their picture, even in part, bool ``(I, H, W)``."""
    x_I, y_I = extent_I2.unbind(-1)
    inside_IW = torch.arange(width, device=x_I.device) < x_I[:, None] * width - SLIVER
    inside_IH = torch.arange(height, device=y_I.device) < y_I[:, None] * height - SLIVER
    return inside_IH[:, :, None] & inside_IW[:, None, :]


def cell_points(
    height: int,
    width: int,
    reference: Tensor,
    extent_I2: Tensor | None = None,
    offset: float = CENTRES,
) -> Tensor:
    """Return points (x, y) of the cells as shares of their picture, ``(S, 2)``, or ``(I, S, 2)``.

    Only the part of a cell inside the picture counts, so no point lies outside. `height` and
    `width` count cells, `reference` gives device and dtype, and `offset` goes from 0, the upper
    left end of a cell, to 1, its lower right end.
    """
    x_I, y_I = (None, None) if extent_I2 is None else extent_I2.unbind(-1)
    x, y = torch.broadcast_tensors(
        _along(x_I, width, offset, reference.device)[..., None, :],
        _along(y_I, height, offset, reference.device)[..., :, None],
    )
    return torch.stack((x, y), dim=-1).flatten(-3, -2).to(reference.dtype)


def _along(extent_I: Tensor | None, cells: int, offset: float, device: torch.device) -> Tensor:
    """Return points of the cells along one side, ``(cells,)`` or ``(I, cells)``."""
    if extent_I is None:
        return (torch.arange(cells, device=device) + offset) / cells
    ends = torch.arange(cells + 1, device=device) / (extent_I[:, None] * cells)
    ends = ends.clamp(max=1)
    return torch.lerp(ends[:, :-1], ends[:, 1:], offset)
