"""Annotations as tensors.

F valid frames, M the most objects a frame has, R = 26 relations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_convert

from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import RELATIONS


@dataclass(frozen=True, slots=True)
class Targets:
    """The ground truth of F frames, padded to M objects.

    Boxes are (centre x, centre y, width, height) as shares of the frame; rows that are not real
    hold zeros.
    """

    person_boxes_F4: Tensor
    object_boxes_FM4: Tensor
    union_boxes_FM4: Tensor
    """The box around person and object."""
    classes_FM: Tensor
    relations_FMR: Tensor
    """Multi-hot, float."""
    real_FM: Tensor
    objects: tuple[int, ...]
    """Real rows of each frame, on the host: the matcher and the counts need no device."""

    @property
    def boxes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Person, object and union boxes of every object, ``(F, M, 4)`` each."""
        person_FM4 = self.person_boxes_F4[:, None].expand_as(self.object_boxes_FM4)
        return person_FM4, self.object_boxes_FM4, self.union_boxes_FM4


def to_tensors(frames: Sequence[FrameTargets], device: torch.device | str = "cpu") -> Targets:
    """Pad the annotations of the valid frames, in the order of ``valid_BT.flatten()``."""
    objects = tuple(len(frame.object_classes_M) for frame in frames)
    count, most = len(frames), max(objects, default=0)
    person = np.zeros((count, 4), np.float32)
    boxes = np.zeros((count, most, 4), np.float32)
    classes = np.zeros((count, most), np.int64)
    relations = np.zeros((count, most, len(RELATIONS)), np.float32)
    real = np.arange(most) < np.array(objects, np.int64)[:, None]
    for row, frame in enumerate(frames):
        height, width = frame.size_hw
        scale = np.array((width, height, width, height), np.float32)
        person[row] = frame.person_box_4 / scale
        boxes[row, : objects[row]] = frame.object_boxes_M4 / scale
        classes[row, : objects[row]] = frame.object_classes_M
        relations[row, : objects[row]] = frame.relations_MR()
    low = np.minimum(person[:, None, :2], boxes[..., :2])
    high = np.maximum(person[:, None, 2:], boxes[..., 2:])
    union = np.concatenate((low, high), axis=-1) * real[..., None]

    def put(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    return Targets(
        person_boxes_F4=box_convert(put(person), "xyxy", "cxcywh"),
        object_boxes_FM4=box_convert(put(boxes), "xyxy", "cxcywh"),
        union_boxes_FM4=box_convert(put(union), "xyxy", "cxcywh"),
        classes_FM=put(classes),
        relations_FMR=put(relations),
        real_FM=put(real),
        objects=objects,
    )
