"""Reading the blocks of a plan from any data that has lengths and can be read by segment."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from torch.utils.data import Dataset

from bload.batch import BlockSample
from bload.errors import InputError
from bload.plan import Block
from bload.trees import as_tensors, column_of, counts, join, kind, none_of

TargetsPer = Literal["frame", "sequence"]


class SequenceSource(Protocol):
    """All that the library needs of a data set: an attribute ``lengths`` and a method ``read``.

    An attribute ``targets_per = "sequence"`` says that there is a target per sequence instead of
    one per frame.
    """

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Frames of every sequence, ``(sequences,)``."""

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return `length` frames of a sequence from `first` on: ``frames`` or ``frames, targets``.

        ``frames`` is a tensor or numpy array ``(length, ...)``, or a dict of them. Targets per
        frame are the same, or a list of any objects; a target per sequence is one value of any
        type. Every call returns the same kinds.
        """


class BlockDataset(Dataset[BlockSample]):
    """Maps a `Block` to its frames and targets.

    Raises:
        InputError: `read` returned another number of frames than asked for, or another kind (keys,
            shape, dtype) than for the first frame of sequence 0.
    """

    def __init__(self, source: SequenceSource) -> None:
        self.source = source
        self.targets_per: TargetsPer = getattr(source, "targets_per", "frame")
        if self.targets_per not in ("frame", "sequence"):
            raise InputError(f"targets_per is {self.targets_per!r}; choose frame or sequence")
        self._nothing: tuple[Any, Any] | None = None
        self._kinds: tuple[str, str] | None = None

    def __getitem__(self, block: Block) -> BlockSample:
        no_frames, no_targets = self._no_frames()
        segments = zip(block.sequence, block.first, block.length, strict=True)
        pieces = [self._read(*map(int, segment)) for segment in segments]
        frames_V = join([no_frames, *(frames for frames, _ in pieces)])
        targets = join([no_targets, *(targets for _, targets in pieces)])
        if self.targets_per == "sequence":
            return BlockSample(block, frames_V, targets_S=targets)
        return BlockSample(block, frames_V, targets)

    def _read(self, sequence: int, first: int, length: int) -> tuple[Any, Any]:
        result = self.source.read(sequence, first, length)
        frames, targets = result if isinstance(result, tuple) else (result, None)
        frames, targets = as_tensors(frames), as_tensors(targets)
        per_frame = self.targets_per == "frame"
        if not per_frame:
            targets = column_of(targets)
        by_name = {"frames": frames, "targets": targets if per_frame else None}
        for name, tree in by_name.items():
            if tree is not None and counts(tree) != {length}:
                numbers = " and ".join(map(str, sorted(counts(tree))))
                raise InputError(
                    f"read({sequence}, {first}, {length}) returned {numbers} {name}; "
                    f"it has to return {length}"
                )
        kinds = kind(frames), kind(targets)
        for name, found, expected in zip(by_name, kinds, self._kinds or kinds, strict=True):
            if found != expected:
                raise InputError(
                    f"read({sequence}, {first}, {length}) returned {name} of the kind {found}, but "
                    f"read(0, 0, 1) of the kind {expected}; every call has to return the same"
                )
        return frames, targets

    def _no_frames(self) -> tuple[Any, Any]:
        """Return no frames and no targets of the source's kinds: all that a filler has."""
        if self._nothing is None:
            frames, targets = self._read(0, 0, 1)
            self._nothing = none_of(frames), none_of(targets)
            self._kinds = kind(frames), kind(targets)
        return self._nothing
