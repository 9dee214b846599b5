"""Action Genome as a sequence source: lengths, and frames with targets of any run of a video."""

from pathlib import Path

import torch

from bload.errors import InputError
from datasets.annotations import read_annotations
from datasets.frame_table import FrameTable
from datasets.frames import read_frames
from datasets.targets import FrameTargets


class ActionGenome:
    """One split of an Action Genome root, real or synthetic.

    `image_size_hw` is the size frames are resized to; boxes in the targets stay in native
    pixels. Holds paths and flat arrays only, so workers of a data loader get it cheaply.

    Attributes: `lengths`, int64 ``(V,)``, frames a video; `videos`, their names, sorted;
    `counts`, what filtering took away.
    """

    def __init__(
        self,
        root: Path | str,
        split: str,
        image_size_hw: tuple[int, int],
        *,
        small_boxes: str = "keep",
    ) -> None:
        if len(image_size_hw) != 2 or min(image_size_hw) < 1:
            raise InputError(f"image size {image_size_hw} is not (height, width) of at least 1")
        annotations = read_annotations(root, split, small_boxes=small_boxes)
        self.root = Path(root)
        self.split = split
        self.image_size_hw = (int(image_size_hw[0]), int(image_size_hw[1]))
        self.videos = tuple(video.name for video in annotations.videos)
        self.counts = annotations.counts
        self._table = FrameTable.of(annotations.videos)
        self.lengths = self._table.lengths

    def __len__(self) -> int:
        return len(self.videos)

    def targets(self, sequence: int, first: int, length: int) -> tuple[FrameTargets, ...]:
        """Targets of `length` frames of video `sequence` from frame `first` on; reads no image."""
        frames = int(self.lengths[sequence])
        if first < 0 or length < 1 or first + length > frames:
            raise IndexError(
                f"video {self.videos[sequence]!r} has {frames} frames, not {first} to "
                f"{first + length}"
            )
        return tuple(self._table.frame(sequence, first + step) for step in range(length))

    def read(
        self, sequence: int, first: int, length: int
    ) -> tuple[torch.Tensor, tuple[FrameTargets, ...]]:
        """Frames, uint8 ``(length, 3, H, W)``, and their targets.

        Raises `InputError` for an image that cannot be read.
        """
        targets = self.targets(sequence, first, length)
        names = [target.name for target in targets]
        return read_frames(self.root, names, self.image_size_hw), targets
