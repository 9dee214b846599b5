"""Where the frames of a split come from: files that are decoded, or a cache of decoded ones.

T frames, h x w pixels.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from datasets.annotations.targets import FrameTargets


class FrameStore(Protocol):
    """Something that data loaders read frames from; cheap to pickle."""

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Height and width in which a frame annotated as `size_hw` is stored."""
        ...

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Consecutive frames of one video, all of one size, as uint8 RGB ``(T, 3, h, w)``.

        `first` is the number of the first of them in the split. Raises `InputError` naming a
        frame that cannot be read.
        """
        ...
