"""Data set of blocks: reads the segments of each block from a source of sequences."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from bload.batch.batch import BlockSample, TargetsPer
from bload.batch.trees import (
    alike,
    as_tensors,
    column_of,
    counts,
    is_by_frame,
    kind,
    none_of,
)
from bload.errors import InputError
from bload.packing.plan import Block


class SequenceSource(Protocol):
    """Interface of a data source: an attribute ``lengths`` and a method ``read``.

    Set an attribute ``targets_per = "sequence"`` if there is one target per sequence instead of one
    per frame.
    """

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Frames of every sequence, ``(sequences,)``."""

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return `length` frames of a sequence from `first` on: ``frames``, or ``frames, targets``.

        ``frames`` is a tensor or numpy array ``(length, ...)``, or a dict of these. Targets per
        frame have the same form, or are a list of any objects. A target per sequence is a number, a
        tensor or array of fixed shape, any other object, or a dict of these. Every call must return
        the same keys, shapes and dtypes.
        """


class BlockDataset(Dataset[BlockSample]):
    """Map-style data set from a `Block` to its frames and targets.

    Raises:
        InputError: `read` returned a wrong number of frames, or other keys, shapes or dtypes than
            for the first frame of sequence 0.
    """

    def __init__(self, source: SequenceSource) -> None:
        self.source = source
        self.targets_per: TargetsPer = getattr(source, "targets_per", "frame")
        if self.targets_per not in ("frame", "sequence"):
            raise InputError(f"targets_per is {self.targets_per!r}; choose frame or sequence")
        self._nothing: tuple[Any, Any] | None = None

    def __getitem__(self, block: Block) -> BlockSample:
        like = self._like()
        columns = block.sequence.tolist(), block.first.tolist(), block.length.tolist()
        pieces = [self._read(*segment) for segment in zip(*columns, strict=True)]
        inputs, targets = zip(*pieces, strict=True) if pieces else ((), ())
        return BlockSample(block, inputs, targets, like, self.targets_per)

    def _read(self, sequence: int, first: int, length: int) -> tuple[Any, Any]:
        result = self.source.read(sequence, first, length)
        frames, targets = result if isinstance(result, tuple) else (result, None)
        per_frame = self.targets_per == "frame"
        if self._nothing and _is_usual(frames, self._nothing[0], length):
            no_targets = self._nothing[1]
            if targets is no_targets or (per_frame and _is_usual(targets, no_targets, length)):
                return frames, targets
        frames, targets = split_result(result, self.targets_per)
        no_frames, no_targets = self._nothing or (frames, targets)
        fault = _fault("frames", frames, length, objects=False)
        if not fault and per_frame and targets is not None:
            fault = _fault("targets", targets, length, objects=True)
        for name, tree, expected in (
            ("frames", frames, no_frames),
            ("targets", targets, no_targets),
        ):
            if not fault and not alike(tree, expected):
                fault = (
                    f"{name} of the kind {kind(tree)}, but read(0, 0, 1) of the kind "
                    f"{kind(expected)}; every call has to return the same"
                )
        if fault:
            raise InputError(f"read({sequence}, {first}, {length}) returned {fault}")
        return frames, targets

    def _like(self) -> tuple[Any, Any]:
        """Return empty frames and targets with the source's shapes and dtypes, for fillers."""
        if self._nothing is None:
            frames, targets = self._read(0, 0, 1)
            self._nothing = none_of(frames), none_of(targets)
        return self._nothing


def split_result(result: Any, targets_per: TargetsPer) -> tuple[Any, Any]:
    """Split a result of `SequenceSource.read` into frames and targets; arrays become tensors."""
    frames, targets = result if isinstance(result, tuple) else (result, None)
    frames, targets = as_tensors(frames), as_tensors(targets)
    return frames, targets if targets_per == "frame" else column_of(targets)


def _is_usual(tree: Any, nothing: Any, length: int) -> bool:
    """Return True for a tensor of `length` frames with the expected shape and dtype."""
    return (
        isinstance(tree, Tensor)
        and isinstance(nothing, Tensor)
        and tree.dtype is nothing.dtype
        and tree.shape == (length, *nothing.shape[1:])
    )


def _fault(name: str, tree: Any, length: int, objects: bool) -> str:
    """Return the error in the frames or the targets per frame of a call, else an empty string."""
    if not is_by_frame(tree, objects):
        other = ", or a list" if objects else ""
        return (
            f"{name} of type {type(tree).__name__}; it has to return a tensor or array "
            f"({length}, ...), a dict of them{other}"
            + ('; for targets per sequence, set targets_per="sequence"' if objects else "")
        )
    if counts(tree) != {length}:
        return f"{' and '.join(map(str, sorted(counts(tree))))} {name}; it has to return {length}"
    return ""
