"""Intersection over union of boxes, by the two borders that papers use.

Boxes are xyxy in pixels. ``inclusive`` counts both border pixels, so a side is ``x2 - x1 + 1``
(that of the evaluators that descend from Fast R-CNN, STTran's among them);
``continuous`` takes ``x2 - x1`` (COCO, torchvision). They differ for small boxes.
"""

import numpy as np

BORDERS = {"inclusive": 1.0, "continuous": 0.0}
"""Name -> number added to the difference of two corners."""


def overlaps(boxes_4: np.ndarray, others_4: np.ndarray, iou: str) -> np.ndarray:
    """Return the IoU of boxes ``(..., 4)`` with others ``(..., 4)``, broadcast, float64 ``(...)``.

    Two empty boxes overlap by 0. Inclusive boxes meet while less than one pixel lies between them.
    """
    border = BORDERS[iou]
    a_4, b_4 = boxes_4.astype(np.float64), others_4.astype(np.float64)
    low_2 = np.maximum(a_4[..., :2], b_4[..., :2])
    high_2 = np.minimum(a_4[..., 2:], b_4[..., 2:])
    shared_2 = np.maximum(high_2 - low_2 + border, 0.0)
    side_a_2 = a_4[..., 2:] - a_4[..., :2] + border
    side_b_2 = b_4[..., 2:] - b_4[..., :2] + border
    intersection = shared_2[..., 0] * shared_2[..., 1]
    union = side_a_2[..., 0] * side_a_2[..., 1] + side_b_2[..., 0] * side_b_2[..., 1] - intersection
    return np.divide(intersection, union, out=np.zeros_like(intersection), where=intersection > 0)
