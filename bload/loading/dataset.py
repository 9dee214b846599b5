"""Data set of blocks: reads the segments of each block from a source of sequences."""

from collections.abc import Callable, Sequence
from inspect import signature
from itertools import chain
from typing import Any, Protocol

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from bload.batch.batch import BlockSample, TargetsPer
from bload.batch.step import Step, StepList, require_step
from bload.batch.trees import (
    are_like,
    as_column,
    as_tensors,
    describe,
    empty_like,
    frame_counts,
    map_tensors,
    share_memory,
)
from bload.errors import InputError, check_choice
from bload.packing.plan import Block

ADVICE = "convert all to the dtype and the shape of item 0"
"""Way out if values differ in kind."""


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
        next call, but not arrays and lists inside a list or another object.
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
        check_choice("targets_per", self.targets_per, ("frame", "sequence"))
        self._takes_epoch = False
        try:
            parameters = signature(source.read)
            self._takes_epoch = "epoch" in parameters.parameters
            parameters.bind(0, 0, 1, **({"epoch": 0} if self._takes_epoch else {}))
        except ValueError:  # compiled functions may have no signature
            pass
        except TypeError:
            raise InputError(
                f"read takes {parameters}; it is called as read(sequence, first, length)"
            ) from None
        self._copies = False
        """True if `read` has returned the same memory twice, so that its results are copied."""
        self._like: tuple[Any, Any] = (None, None)
        """Frames and targets of sequence 0 without frames, from the first read on."""
        self._kinds = ""
        self._reads_tensors = False
        """True if the first read has returned tensors by frame, which need no conversion."""

    def __getitem__(self, block: Block) -> BlockSample:
        self._copies = True  # the other blocks of the batch are not seen here
        (sample,) = self.__getitems__([block])
        return sample

    def __getitems__(self, blocks: list[Block]) -> list[BlockSample]:
        """Return the samples of a batch of blocks, with its step if `blocks` is a `StepList`."""
        step: Step | None = getattr(blocks, "step", None)
        options = {"epoch": require_step(step).epoch} if self._takes_epoch else {}

        def read(sequence: int, first: int, length: int) -> Any:
            try:
                return self.source.read(sequence, first, length, **options)
            except InputError:
                raise
            except Exception as error:
                error.add_note(f"in {self._call(sequence, first, length)}")
                raise

        if self._like[0] is None:  # fillers need shapes and dtypes too
            result = read(0, 0, 1)
            frames, targets = self._take(result, 0, 0, 1)
            self._like = empty_like(frames), empty_like(targets)
            self._kinds = f"frames {describe(frames)} and targets {describe(targets)}"
            kinds = {*map(type, result if isinstance(result, tuple) else [result])}
            by_frame = targets is None or self.targets_per == "frame"
            self._reads_tensors = by_frame and kinds <= {Tensor, type(None)}
        sequences, firsts, lengths = (
            [*chain.from_iterable(getattr(block, name).tolist() for block in blocks)]
            for name in ("sequence", "first", "length")
        )
        inputs, targets = self._read(read, sequences, firsts, lengths)
        if not self._copies and (share_memory(inputs) or share_memory(targets)):
            self._copies = True
            inputs, targets = self._read(read, sequences, firsts, lengths)
        samples, end = [], 0
        for block in blocks:
            begin, end = end, end + len(block.length)
            values = inputs[begin:end], targets[begin:end]
            samples.append(BlockSample(block, *values, self._like, self.targets_per))
        return samples if step is None else StepList(samples, step._replace(kinds=self._kinds))

    def _read(
        self, read: Callable[..., Any], *segments: list[int]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return inputs and targets of segments, given as sequences, first frames and lengths."""
        if self._reads_tensors and not self._copies:
            results = [*map(read, *segments)]
            is_pair = {*map(type, results)} == {tuple}
            columns = [*zip(*results, strict=True)] if is_pair else [results, [None] * len(results)]
            if len(columns) == 2 and all(map(are_like, columns, self._like, [segments[2]] * 2)):
                return columns[0], columns[1]
        pieces = []
        for segment in zip(*segments, strict=True):
            piece = self._take(read(*segment), *segment)
            if self._copies:
                piece = map_tensors(piece[0], Tensor.clone), map_tensors(piece[1], Tensor.clone)
            pieces.append(piece)
        return [frames for frames, _ in pieces], [targets for _, targets in pieces]

    def _take(self, result: Any, sequence: int, first: int, length: int) -> tuple[Any, Any]:
        opening = f"{self._call(sequence, first, length)} returned"
        return take_values(result, self.targets_per, opening, self._like, length)

    def _call(self, sequence: int, first: int, length: int) -> str:
        name = "" if self.names is None else f" of {self.names[sequence]}"
        return f"read({sequence}, {first}, {length}){name}"


def take_values(
    result: Any,
    targets_per: TargetsPer,
    opening: str,
    like: tuple[Any, Any],
    length: int | None = None,
) -> tuple[Any, Any]:
    """Return frames and targets that a source gives, as tensors where they are arrays.

    Args:
        result: frames, or a pair of frames and targets, see `SequenceSource.read`.
        opening: opening of the sentence about invalid values.
        like: frames and targets to agree with in kind; None and None if these are the first.
        length: required number of frames; None takes any.

    Raises:
        InputError: the result is of another form, another kind or another number of frames.
    """
    values = result if isinstance(result, tuple) else (result, None)
    if len(values) != 2:
        raise InputError(
            f"{opening} {len(values)} parts; give frames, or the pair of frames and targets, each "
            "of which may be a dict"
        )
    frames, targets = map(as_tensors, values)
    leaves = chain.from_iterable(
        tree.values() if isinstance(tree, dict) else [tree] for tree in (frames, targets)
    )
    if any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
        raise InputError(
            f"{opening} a tensor that requires a gradient; give it detached, and run what is "
            "trained in the model"
        )
    targets = as_column(targets) if targets_per == "sequence" else _copy_lists(targets)
    for name, tree, expected in (("frames", frames, like[0]), ("targets", targets, like[1])):
        by_frame = name == "frames" or (targets_per == "frame" and targets is not None)
        if like[0] is not None and are_like([tree], expected, [(length or 0) if by_frame else 1]):
            continue
        fault = _find_fault(name, tree, length) if by_frame else ""
        if not fault and like[0] is not None and describe(tree) != describe(expected):
            fault = (
                f"{name} of the kind {describe(tree)}, but earlier ones are of the kind "
                f"{describe(expected)}; {ADVICE}"
            )
            if name == "targets":
                fault += ", or give lists of objects, as from_dataset(..., objects=) does"
        if fault:
            raise InputError(f"{opening} {fault}")
        if by_frame:
            (length,) = frame_counts(tree)
    return frames, targets


def _find_fault(name: str, tree: Any, length: int | None) -> str:
    """Return why frames or targets are not `length` values, one per frame, or ""."""
    takes_lists = name == "targets"
    remedy = ', or set targets_per="sequence"' if takes_lists else ""
    parts = {name: tree}
    if isinstance(tree, dict) and tree:
        parts = {f"{name} {key!r}": part for key, part in tree.items()}
    for key, part in parts.items():
        is_tensor = isinstance(part, Tensor) and part.dim() > 0
        if not (is_tensor or (takes_lists and isinstance(part, list | tuple))):
            kind = type(part).__name__
            return f"{key} of type {kind}; give a tensor or array (frames, ...){remedy}"
    counts = frame_counts(tree)
    expected = length or max(counts)
    if counts == {expected}:
        return ""
    given = " and ".join(map(str, sorted(counts)))
    return f"{given} {name}, not {expected}; give one per frame{remedy}"


def _copy_lists(tree: Any) -> Any:
    """Return new lists, since the next call may fill the same ones."""
    if isinstance(tree, dict):
        return {key: _copy_lists(part) for key, part in tree.items()}
    return [*tree] if isinstance(tree, list) else tree
