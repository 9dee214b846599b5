"""Overlap of boxes, for any broadcastable shapes and without waiting for the device.

torchvision's pairwise functions take one picture at a time, and its elementwise losses index by a
mask, which makes the host wait.
"""

import torch
from torch import Tensor


def corners(boxes: Tensor) -> Tensor:
    """(centre x, centre y, width, height) -> (x1, y1, x2, y2)."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), dim=-1)


def generalized_iou(first: Tensor, second: Tensor) -> Tensor:
    """Generalised IoU of xyxy boxes ``(..., 4)``, in -1..1, elementwise with broadcasting.

    Boxes without area give a finite value. Source: arXiv 1902.09630.
    """
    tiny = torch.finfo(first.dtype).tiny ** 0.5

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp(min=0).prod(-1)

    low1, high1 = first[..., :2], first[..., 2:]
    low2, high2 = second[..., :2], second[..., 2:]
    inside = area(torch.maximum(low1, low2), torch.minimum(high1, high2))
    union = area(low1, high1) + area(low2, high2) - inside
    hull = area(torch.minimum(low1, low2), torch.maximum(high1, high2))
    return inside / union.clamp(min=tiny) - (hull - union) / hull.clamp(min=tiny)
