"""Reading the blocks of a plan from any data that has lengths and can be read by segment."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from torch.utils.data import Dataset

from bload.batch.batch import BlockSample
from bload.batch.trees import (
    alike,
    as_tensors,
    column_of,
    counts,
    is_by_frame,
    kind,
    none_of,
    put,
    room_for,
)
from bload.errors import InputError
from bload.packing.plan import Block

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
        frame are the same, or a list of any objects. A target per sequence is a number, a tensor
        or array of one shape, any other object, or a dict of these. Every call returns the same
        kinds.
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

    def __getitem__(self, block: Block) -> BlockSample:
        no_frames, no_targets = self._no_frames()
        by_sequence = self.targets_per == "sequence"
        used = int(block.length.sum())
        inputs_V = room_for(no_frames, used)
        targets = room_for(no_targets, len(block.length) if by_sequence else used)
        segments = zip(block.sequence, block.first, block.length, block.starts, strict=True)
        for number, segment in enumerate(segments):
            sequence, first, length, slot = map(int, segment)
            read, its_targets = self._read(sequence, first, length)
            put(read, inputs_V, slot)  # in its place at once: no block is held twice
            put(its_targets, targets, number if by_sequence else slot)
        if by_sequence:
            return BlockSample(block, inputs_V, targets_S=targets)
        return BlockSample(block, inputs_V, targets)

    def _read(self, sequence: int, first: int, length: int) -> tuple[Any, Any]:
        result = self.source.read(sequence, first, length)
        frames, targets = split_result(result, self.targets_per)
        per_frame = self.targets_per == "frame"
        fault = _fault("frames", frames, length, objects=False)
        if not fault and per_frame and targets is not None:
            fault = _fault("targets", targets, length, objects=True)
        for name, tree, expected in zip(
            ("frames", "targets"),
            (frames, targets),
            self._nothing or (frames, targets),
            strict=True,
        ):
            if not fault and not alike(tree, expected):
                fault = (
                    f"{name} of the kind {kind(tree)}, but read(0, 0, 1) of the kind "
                    f"{kind(expected)}; every call has to return the same"
                )
        if fault:
            raise InputError(f"read({sequence}, {first}, {length}) returned {fault}")
        return frames, targets

    def _no_frames(self) -> tuple[Any, Any]:
        """Return no frames and no targets of the source's kinds: all that a filler has."""
        if self._nothing is None:
            frames, targets = self._read(0, 0, 1)
            self._nothing = none_of(frames), none_of(targets)
        return self._nothing


def split_result(result: Any, targets_per: TargetsPer) -> tuple[Any, Any]:
    """Return the frames and targets of what `SequenceSource.read` returned, arrays as tensors."""
    frames, targets = result if isinstance(result, tuple) else (result, None)
    frames, targets = as_tensors(frames), as_tensors(targets)
    return frames, targets if targets_per == "frame" else column_of(targets)


def _fault(name: str, tree: Any, length: int, objects: bool) -> str:
    """Return what is wrong with the frames, or the targets per frame, of a call; else nothing."""
    if not is_by_frame(tree, objects):
        other = ", or a list" if objects else ""
        return (
            f"{name} of type {type(tree).__name__}; it has to return a tensor or array "
            f"({length}, ...), a dict of them{other}"
            + ('; targets per sequence want targets_per="sequence"' if objects else "")
        )
    if counts(tree) != {length}:
        return f"{' and '.join(map(str, sorted(counts(tree))))} {name}; it has to return {length}"
    return ""
