"""Data set of blocks: reads the segments of each block from a source of sequences."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from itertools import chain
from typing import Any, Protocol

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from bload.batch.batch import BlockSample, TargetsPer
from bload.batch.step import Step, StepList, known
from bload.batch.trees import (
    Usual,
    alike,
    as_tensors,
    column_of,
    counts,
    is_by_frame,
    is_usual,
    kind,
    none_of,
    on_tensors,
    parts_of,
    share_memory,
    usual,
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
        frame have the same form, or are a list of any objects, or a dict of both. A target per
        sequence is a number, a tensor or array of fixed shape, any other object, or a dict of
        these. Every call must return the same keys, shapes and dtypes.

        A method with a parameter ``epoch`` also gets the number of the epoch, by keyword. Resuming
        is exact if the result depends on the arguments alone: draw augmentation from
        ``np.random.default_rng([epoch, sequence])``. Arrays and lists may be filled anew by the
        next call, but not arrays and lists inside a list.
        """


class BlockDataset(Dataset[BlockSample]):
    """Map-style data set from a `Block` to its frames and targets.

    Raises:
        InputError: `read` returned a wrong number of frames, or other keys, shapes or dtypes than
            for the first frame of sequence 0; or it has a parameter ``epoch``, and the blocks do
            not come as the list that `BlockSampler` yields.
    """

    def __init__(self, source: SequenceSource, names: Sequence[str] | None = None) -> None:
        self.source, self.names = source, names
        self.targets_per: TargetsPer = getattr(source, "targets_per", "frame")
        if self.targets_per not in ("frame", "sequence"):
            raise InputError(f"targets_per is {self.targets_per!r}; choose frame or sequence")
        self._advice = getattr(source, "advice", {})
        try:
            epoch = signature(source.read).parameters.get("epoch")
            self._takes_epoch = epoch is not None and epoch.kind != epoch.POSITIONAL_ONLY
        except ValueError:  # compiled functions may have no signature
            self._takes_epoch = False
        self._copies = False
        """True if `read` has returned the same memory twice, so that its results are copied."""
        self._nothing: Any = ()
        """Frames and targets of the usual kind without frames, from the first read on."""
        self._usual: tuple[Usual, Usual] = (None, None)

    def __getitem__(self, block: Block) -> BlockSample:
        self._copies = True  # the other blocks of the batch are not seen here
        (sample,) = self.__getitems__([block])
        return sample

    def __getitems__(self, blocks: list[Block]) -> list[BlockSample]:
        """Return the samples of a batch of blocks, with its step if `blocks` is a `StepList`."""
        step: Step | None = getattr(blocks, "step", None)
        samples = self._samples(blocks, step)
        read = [
            [*chain(*(getattr(one, name) for one in samples))] for name in ("inputs", "targets")
        ]
        if not self._copies and any(map(share_memory, read)):
            self._copies = True
            samples = self._samples(blocks, step)
        return samples if step is None else StepList(samples, step)

    def _samples(self, blocks: list[Block], step: Step | None) -> list[BlockSample]:
        read: Callable[..., Any] = self.source.read
        if self._takes_epoch:
            read = partial(read, epoch=known(step).epoch)
        if not self._nothing:  # shapes and dtypes, which fillers need too
            frames, targets = map(none_of, self._read(read, 0, 0, 1))
            self._nothing, self._usual = (frames, targets), (usual(frames), usual(targets))
        samples = []
        for block in blocks:
            columns = block.sequence.tolist(), block.first.tolist(), block.length.tolist()
            pieces = []
            for segment in zip(*columns, strict=True):
                piece = self._read(read, *segment)
                pieces.append(on_tensors(piece, Tensor.clone) if self._copies else piece)
            inputs, targets = zip(*pieces, strict=True) if pieces else ((), ())
            samples.append(BlockSample(block, inputs, targets, self._nothing, self.targets_per))
        return samples

    def _read(self, read: Callable[..., Any], sequence: int, first: int, length: int) -> Any:
        result = read(sequence, first, length)
        frames, targets = result if type(result) is tuple and len(result) == 2 else (result, None)
        per_frame = self.targets_per == "frame"
        if is_usual(frames, self._usual[0], length) and (
            targets is self._nothing[1] or (per_frame and is_usual(targets, self._usual[1], length))
        ):
            return frames, targets
        who = "" if self.names is None else f" of {self.names[sequence]}"
        call = f"read({sequence}, {first}, {length}){who}"
        frames, targets = split_result(result, self.targets_per, call)
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
                    f"{kind(expected)}; "
                    f"{self._advice.get(name, 'every call has to return the same')}"
                )
        if fault:
            raise InputError(f"{call} returned {fault}")
        return frames, targets


def split_result(result: Any, targets_per: TargetsPer, call: str) -> tuple[Any, Any]:
    """Split a result of `SequenceSource.read` into frames and targets; arrays become tensors.

    Args:
        call: the call that returned it, for messages.

    Raises:
        InputError: the result is a tuple of other than two parts, or a tensor has a gradient.
    """
    if not isinstance(result, tuple):
        result = result, None
    if len(result) != 2:
        raise InputError(
            f"{call} returned a tuple of {len(result)}; return frames, or the pair of frames and "
            "targets, each of which may be a dict"
        )
    frames, targets = map(as_tensors, result)
    for part in parts_of(frames) + parts_of(targets):
        if isinstance(part, Tensor) and part.requires_grad:
            raise InputError(
                f"{call} returned a tensor that requires a gradient; return it detached, and run "
                "what is trained in the model"
            )
    if targets_per == "sequence":
        return frames, column_of(targets)
    if isinstance(targets, dict):
        return frames, {key: _copied(part) for key, part in targets.items()}
    return frames, _copied(targets)


def _copied(values: Any) -> Any:
    """Return a new list, since the next call may fill the same one."""
    return [*values] if isinstance(values, list) else values


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
