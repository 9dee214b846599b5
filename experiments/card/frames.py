"""Videos of given lengths with random pictures and labels, all in memory.

T frames, H x W pixels, M objects, G relations.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from datasets.action_genome import VideoSource
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import ATTENTION, CONTACTING, OBJECT_CLASSES, PERSON, SPATIAL

EXTRA = 32
"""Pictures beyond those of the longest video, so that videos begin at different ones."""
MOST_OBJECTS = 3


class FramesInMemory(VideoSource):
    """A source without files: its videos are stretches of one reel of random pictures.

    What it asks of a network is that of real data of these lengths; there is nothing to learn.

    Args:
        lengths: frames of each video.
        image_size_hw: height and width of all pictures.
        seed: of pictures and labels.
    """

    def __init__(
        self, lengths: np.ndarray, image_size_hw: tuple[int, int], *, seed: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.image_size_hw = self.canvas_hw = image_size_hw
        self.videos = tuple(f"V{video:05}.mp4" for video in range(len(self.lengths)))
        pictures = int(self.lengths.max()) + EXTRA
        random = torch.Generator().manual_seed(seed)
        self._reel_THW = torch.randint(
            256, (pictures, 3, *image_size_hw), dtype=torch.uint8, generator=random
        )
        rng = np.random.default_rng(seed)
        self._labels = [_labels(rng, image_size_hw) for _ in range(pictures)]

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        return self.canvas_hw

    def targets(self, sequence: int, first: int, length: int) -> tuple[FrameTargets, ...]:
        """Return targets of `length` frames of video `sequence` from `first` on."""
        begin = sequence % EXTRA + first
        return tuple(
            replace(labels, name=f"{self.videos[sequence]}/{1 + first + step:06}.png")
            for step, labels in enumerate(self._labels[begin : begin + length])
        )

    def read(
        self, sequence: int, first: int, length: int
    ) -> tuple[Tensor, tuple[FrameTargets, ...]]:
        """Return frames, uint8 ``(T, 3, H, W)``, which others may share; and targets."""
        begin = sequence % EXTRA + first
        return self._reel_THW[begin : begin + length], self.targets(sequence, first, length)


def _labels(rng: np.random.Generator, size_hw: tuple[int, int]) -> FrameTargets:
    """A person and one to three objects, with a relation of each group for every object."""
    objects = int(rng.integers(1, MOST_OBJECTS + 1))
    scale = np.tile(size_hw[::-1], 2)
    low, size = rng.uniform(0, 0.6, (objects + 1, 2)), rng.uniform(0.1, 0.4, (objects + 1, 2))
    boxes = (np.concatenate((low, low + size), axis=1) * scale).astype(np.float32)
    relations = [
        (row, rng.integers(group.start, group.stop))
        for row in range(objects)
        for group in (ATTENTION, SPATIAL, CONTACTING)
    ]
    return FrameTargets(
        name="",
        size_hw=size_hw,
        person_box_4=boxes[0],
        object_boxes_M4=boxes[1:],
        object_classes_M=rng.integers(PERSON + 1, OBJECT_CLASSES + 1, objects),
        relations_G2=np.array(relations, np.int64),
    )
