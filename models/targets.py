"""Annotations as tensors.

F valid frames, M the most objects a frame has, R = 26 relations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bload.batch.trees import to_device
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import RELATIONS


@dataclass(frozen=True, slots=True)
class TargetTensors:
    """The ground truth of F frames, padded to M >= 1 objects.

    Boxes are (centre x, centre y, width, height) as shares of the frame; padded rows hold the
    frame's person and zeros.
    """

    boxes_FM34: Tensor
    """Person, object and the box around both."""
    classes_FM: Tensor
    relations_FMR: Tensor
    """Multi-hot, float."""
    host_boxes_FM34: Tensor
    """`boxes_FM34` on the host, like `is_object_FM` and `objects`."""
    is_object_FM: Tensor
    """Bool, False on padded rows."""
    objects: tuple[int, ...]
    """Number of objects of each frame."""


def to_tensors(frames: Sequence[FrameTargets], device: torch.device | str = "cpu") -> TargetTensors:
    """Pad the annotations of the valid frames, in the order of ``valid_BT.flatten()``."""
    objects = tuple(len(frame.object_classes_M) for frame in frames)
    count, max_objects = len(frames), max(objects, default=1)
    corners = np.zeros((count, max_objects, 3, 4), np.float32)
    classes = np.zeros((count, max_objects), np.int64)
    relations = np.zeros((count, max_objects, len(RELATIONS)), np.float32)
    is_object = np.arange(max_objects) < np.array(objects, np.int64)[:, None]
    for row, frame in enumerate(frames):
        height, width = frame.size_hw
        scale = np.array((width, height, width, height), np.float32)
        corners[row, :, 0] = frame.person_box_4 / scale
        corners[row, : objects[row], 1] = frame.object_boxes_M4 / scale
        classes[row, : objects[row]] = frame.object_classes_M
        relations[row, : objects[row]] = frame.relations_MR()
    corners[..., 2, :2] = np.minimum(corners[..., 0, :2], corners[..., 1, :2])
    corners[..., 2, 2:] = np.maximum(corners[..., 0, 2:], corners[..., 1, 2:])
    corners[..., 2, :] *= is_object[..., None]
    low, high = corners[..., :2], corners[..., 2:]

    def move(array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(array), device)

    boxes = np.concatenate(((low + high) / 2, high - low), axis=-1)
    return TargetTensors(
        boxes_FM34=move(boxes),
        classes_FM=move(classes),
        relations_FMR=move(relations),
        host_boxes_FM34=torch.from_numpy(boxes),
        is_object_FM=torch.from_numpy(is_object),
        objects=objects,
    )
