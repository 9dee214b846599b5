"""Random changes of a video's frames and boxes, drawn once per video and epoch.

A recurrent model must not see a flip in mid-video, and resuming, ranks and packing must not change
what it sees, so the draw is a function of (seed, epoch, video).

Labels stay as they are. No relation of Action Genome says left or right (*in front of*, *behind*
and *on the side of* are the person's front, back and side), so a flip changes none; and a crop
keeps every annotated box of the video whole.

T frames, C channels, h x w pixels, M objects, N boxes of all frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as transforms

from datasets.annotations.targets import FrameTargets
from datasets.config import AugmentConfig


@dataclass
class Augmentation(AugmentConfig):
    """Draws and applies what an `AugmentConfig` allows."""

    seed: int = 0

    def __call__(
        self,
        frames_TCHW: Tensor,
        targets: Sequence[FrameTargets],
        union_4: np.ndarray,
        video: int,
        epoch: int,
    ) -> tuple[Tensor, list[FrameTargets], float]:
        """Change consecutive frames of one video, on any device.

        Args:
            frames_TCHW: uint8 pictures without any border.
            targets: of these frames; all of one native size.
            union_4: the box around all boxes of the whole video, xyxy as shares of the picture.
            video, epoch: what the draw depends on, besides the seed.

        Returns:
            the frames, their targets in pixels of these frames, and the share of the canvas that
            they are to fill.
        """
        height, width = frames_TCHW.shape[-2:]
        changes = [v2.RandomHorizontalFlip(self.flip), v2.ColorJitter(*[self.jitter] * 3)]
        (seed,) = np.random.SeedSequence((self.seed, epoch, video)).generate_state(1, np.uint64)
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: it would change the generators of GPUs, which dropout uses.
            torch.default_generator.manual_seed(int(seed) >> 1)
            cut_4, shrink = torch.rand(4).numpy(), float(torch.rand(()))
            frames, boxes = tv_tensors.Image(frames_TCHW), _boxes(targets, (height, width))
            if self.crop:
                window = _window(self.crop * cut_4, union_4, (height, width))
                frames, boxes = (transforms.crop(value, *window) for value in (frames, boxes))
            frames, boxes = v2.Compose(changes)(frames, boxes)
        return frames.as_subclass(Tensor), _with_boxes(targets, boxes), 1 - self.shrink * shrink


def _window(
    cut_4: np.ndarray, union_4: np.ndarray, size_hw: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return top, left, height and width that remain after cutting these shares of the margins."""
    sides_4 = np.array([size_hw[1], size_hw[0]] * 2)
    union_4 = np.clip(union_4, 0, 1)
    margin_4 = np.concatenate((union_4[:2], 1 - union_4[2:]))
    # Whole pixels, rounded down: nothing that is annotated is cut.
    left, top, right, bottom = np.floor(cut_4 * margin_4 * sides_4).astype(int).tolist()
    return top, left, size_hw[0] - top - bottom, size_hw[1] - left - right


def _boxes(targets: Sequence[FrameTargets], size_hw: tuple[int, int]) -> tv_tensors.BoundingBoxes:
    """Return the boxes of person and objects, frame by frame, in pixels of a picture."""
    pairs = ((target.person_box_4[None], target.object_boxes_M4) for target in targets)
    rows_N4 = np.concatenate([boxes for pair in pairs for boxes in pair])
    native_h, native_w = targets[0].size_hw
    rows_N4 = rows_N4 * np.array([size_hw[1] / native_w, size_hw[0] / native_h] * 2, np.float32)
    # Annotated boxes may reach beyond the picture; v2 would cut them.
    return tv_tensors.BoundingBoxes(
        torch.from_numpy(rows_N4), format="XYXY", canvas_size=size_hw, clamping_mode=None
    )


def _with_boxes(
    targets: Sequence[FrameTargets], boxes: tv_tensors.BoundingBoxes
) -> list[FrameTargets]:
    height, width = boxes.canvas_size
    ends_T = np.cumsum([1 + len(target.object_boxes_M4) for target in targets])
    rows_T = np.split(boxes.as_subclass(Tensor).numpy(), ends_T[:-1])
    return [
        replace(target, size_hw=(height, width), person_box_4=rows[0], object_boxes_M4=rows[1:])
        for target, rows in zip(targets, rows_T, strict=True)
    ]
