"""Reading the blocks of a plan from any data that has lengths and can be read by segment."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from bload.batch import BlockSample
from bload.plan import Block


class SequenceSource(Protocol):
    """All that the library needs of a data set: an attribute ``lengths`` and a method ``read``."""

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Frames of every sequence, ``(sequences,)``."""

    def read(self, sequence: int, first: int, length: int) -> tuple[Tensor, Sequence[Any]]:
        """Return frames ``(length, ...)`` of a sequence from `first` on, and a target for each."""


class BlockDataset(Dataset[BlockSample]):
    """Maps a `Block` to its frames and targets; a wrong number of them is a ValueError."""

    def __init__(self, source: SequenceSource) -> None:
        self.source = source
        self._nothing: Tensor | None = None

    def __getitem__(self, block: Block) -> BlockSample:
        frames: list[Tensor] = []
        targets: list[Any] = []
        for sequence, first, length in zip(block.sequence, block.first, block.length, strict=True):
            some_frames, some_targets = self.source.read(int(sequence), int(first), int(length))
            if not len(some_frames) == len(some_targets) == length:
                raise ValueError(
                    f"read({sequence}, {first}, {length}) returned {len(some_frames)} frames and "
                    f"{len(some_targets)} targets; it must return {length} of each"
                )
            frames.append(some_frames)
            targets.extend(some_targets)
        return BlockSample(block, torch.cat(frames) if frames else self._no_frames(), targets)

    def _no_frames(self) -> Tensor:
        """Return no frames, in the source's shape and dtype, for a filler."""
        if self._nothing is None:
            self._nothing = self.source.read(0, 0, 1)[0][:0].clone()
        return self._nothing
