"""Random changes of a video's frames and boxes, drawn once a video and epoch.

A recurrent model must not see a flip in mid-video, and resuming, ranks and packing must not change
what it sees: the draw is a function of (seed, epoch, video).

Labels stay as they are. No relation of Action Genome tells left from right (*in front of*, *behind*
and *on the side of* are the person's front, back and side), so a flip changes none; and a crop
keeps every annotated box of the video whole, so none goes out of sight.

T frames, C channels, h x w pixels, M objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets


@dataclass(frozen=True, slots=True)
class Augmentation:
    """What may change, and how much; all zeros change nothing.

    Raises:
        InputError: a value outside its range.
    """

    flip: float = 0.0
    """Chance that a video is mirrored, left to right."""
    jitter: float = 0.0
    """Brightness, contrast and saturation are multiplied by 1 - jitter to 1 + jitter."""
    hue: float = 0.0
    """Hue is turned by up to this share of the colour circle, at most 0.5."""
    crop: float = 0.0
    """Up to this share of each margin around what is annotated in the video is cut away."""
    shrink: float = 0.0
    """Pictures are up to this share smaller than the canvas."""
    seed: int = 0

    def __post_init__(self) -> None:
        most = {"flip": 1.0, "jitter": 1.0, "hue": 0.5, "crop": 1.0, "shrink": 0.9}
        for name, bound in most.items():
            value = getattr(self, name)
            if not 0 <= value <= bound:
                raise InputError(f"dataset.augment.{name} is {value}; give 0 to {bound:g}")

    @property
    def changes(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self) if field.name != "seed")

    def __call__(
        self,
        frames_TCHW: Tensor,
        targets: Sequence[FrameTargets],
        reach_4: np.ndarray,
        video: int,
        epoch: int,
    ) -> tuple[Tensor, list[FrameTargets], float]:
        """Change a run of frames of one video, on any device.

        Args:
            frames_TCHW: uint8 pictures without any border.
            targets: of these frames; all of one native size.
            reach_4: the box around all boxes of the whole video, xyxy as shares of the picture.
            video, epoch: what the draw depends on, besides the seed.

        Returns:
            the frames, their targets in pixels of these frames, and the share of the canvas that
            they are to fill.
        """
        size_hw = tuple(frames_TCHW.shape[-2:])
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: it would change the generators of GPUs, which dropout uses.
            torch.default_generator.manual_seed(_seed_of(self.seed, epoch, video))
            cut_4, shrink = torch.rand(4).numpy(), float(torch.rand(()))
            frames, boxes = tv_tensors.Image(frames_TCHW), _boxes(targets, size_hw)
            window = _window(self.crop * cut_4, reach_4, size_hw)
            if self.crop:
                frames, boxes = (transforms.crop(value, *window) for value in (frames, boxes))
            frames, boxes = self._transform()(frames, boxes)
        return frames.as_subclass(Tensor), _with_boxes(targets, boxes), 1 - self.shrink * shrink

    def _transform(self) -> v2.Transform:
        return v2.Compose(
            [
                v2.RandomHorizontalFlip(self.flip),
                v2.ColorJitter(*[self.jitter] * 3, hue=self.hue),
            ]
        )


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _window(
    cut_4: np.ndarray, reach_4: np.ndarray, size_hw: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Top, left, height and width of what stays when these shares of the margins are cut."""
    sides = np.array([size_hw[1], size_hw[0]] * 2)
    reach_4 = np.clip(reach_4, 0, 1)
    margin_4 = np.concatenate((reach_4[:2], 1 - reach_4[2:]))
    # Whole pixels, rounded down: nothing that is annotated is cut.
    left, top, right, bottom = np.floor(cut_4 * margin_4 * sides).astype(int).tolist()
    return top, left, size_hw[0] - top - bottom, size_hw[1] - left - right


def _boxes(targets: Sequence[FrameTargets], size_hw: tuple[int, int]) -> tv_tensors.BoundingBoxes:
    """Person and objects of frame after frame, in pixels of a picture of `size_hw`."""
    rows_N4 = np.concatenate(
        [box for target in targets for box in (target.person_box_4[None], target.object_boxes_M4)]
    )
    native_h, native_w = targets[0].size_hw
    rows_N4 = rows_N4 * np.array([size_hw[1] / native_w, size_hw[0] / native_h] * 2, np.float32)
    # Annotated boxes may stand out of the picture; v2 would cut them.
    return tv_tensors.BoundingBoxes(
        torch.from_numpy(rows_N4), format="XYXY", canvas_size=size_hw, clamping_mode=None
    )


def _with_boxes(
    targets: Sequence[FrameTargets], boxes: tv_tensors.BoundingBoxes
) -> list[FrameTargets]:
    changed, row, rows_N4 = [], 0, boxes.as_subclass(Tensor).numpy()
    for target in targets:
        after = row + 1 + len(target.object_boxes_M4)
        changed.append(
            replace(
                target,
                size_hw=tuple(boxes.canvas_size),
                person_box_4=rows_N4[row],
                object_boxes_M4=rows_N4[row + 1 : after],
            )
        )
        row = after
    return changed
