"""Data set of blocks: reads the segments of each block from a source of sequences."""

from collections.abc import Sequence
from inspect import signature
from math import inf
from typing import Any, Protocol, get_args

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from bload.batch.batch import BlockSample, TargetsPer
from bload.batch.sending import check_sendable
from bload.batch.step import Step, StepList, require_step
from bload.batch.trees import as_column, copy_alike, copy_value, describe, empty_like, map_values
from bload.errors import InputError, check_choice
from bload.loading.from_dataset import DatasetSource
from bload.packing.plan import Block


class SequenceSource(Protocol):
    """Interface of a data source: an attribute ``lengths`` and a method ``read``.

    Set an attribute ``targets_per = "sequence"`` if targets are per sequence, not per frame.
    """

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Frames of every sequence, ``(sequences,)``."""

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return `length` frames of a sequence from `first` on: ``inputs``, or ``inputs, targets``.

        ``inputs`` is a tensor or numpy array ``(length, ...)``, or a dict of these. Targets per
        frame have the same form, or are a list of any objects, or a dict of both. A target per
        sequence is a number, a tensor or array of fixed shape, any other object, or a dict of
        these. Every call must return the same keys, shapes and dtypes.

        A method with a parameter ``epoch`` also gets the number of the epoch, by keyword. Resuming
        is exact if the result depends on the arguments alone: draw augmentation from
        ``np.random.default_rng([epoch, sequence])``. Arrays and lists may be filled anew by the
        next call, but not arrays and lists inside a list or another object.
        """


class BlockDataset(Dataset[BlockSample]):
    """Map-style data set from a `Block` to its inputs and targets.

    Raises:
        InputError: `read` returned a wrong number of frames, or other keys, shapes or dtypes than
            for the first frame of sequence 0; or it has a parameter ``epoch``, and the blocks do
            not come as the list that `BlockSampler` yields.
    """

    def __init__(self, source: SequenceSource, names: Sequence[str] | None = None) -> None:
        self.source, self.names = source, names
        self.targets_per: TargetsPer = getattr(source, "targets_per", "frame")
        check_choice("targets_per", self.targets_per, get_args(TargetsPer))
        self._takes_epoch = "epoch" in signature(source.read).parameters
        self._template: tuple[Any, Any] = (None, None)
        """Inputs and targets of sequence 0 without frames, from the first read on."""
        self._last: tuple[int, float] = StepList.pass_and_number
        """Pass and number of the last batch; (pass, inf) turns the check off in workers."""

    def __len__(self) -> int:
        raise TypeError("the sampler shares blocks among ranks; set use_distributed_sampler=False")

    def __getitem__(self, block: Block) -> BlockSample:
        (sample,) = self.__getitems__([block])
        return sample

    def __getitems__(self, blocks: list[Block]) -> list[BlockSample]:
        """Return the samples of a batch of blocks, with its step if `blocks` is a `StepList`."""
        step: Step | None = getattr(blocks, "step", None)
        was, self._last = self._last, getattr(blocks, "pass_and_number", StepList.pass_and_number)
        workers = getattr(get_worker_info(), "num_workers", 0)
        if was[0] == self._last[0]:
            if self._last[1] - was[1] > max(workers, 1):
                raise InputError(
                    f"batch {self._last[1]} of this rank follows batch {was[1]}: a trainer "
                    "shards its batches again; do not let it prepare the DataLoader "
                    "(docs/trainers.md), and set prefetch_factor above 1 if it is in_order=False"
                )
            if workers:  # with in_order=False, others may get its later ones
                self._last = was[0], inf
        options = {"epoch": require_step(step).epoch} if self._takes_epoch else {}
        if self._template[0] is None:  # fillers need shapes and dtypes too
            inputs, targets = self._read(0, 0, 1, options)
            self._template = empty_like(inputs), empty_like(targets)
        samples = []
        for block in blocks:
            columns = block.sequence.tolist(), block.first.tolist(), block.length.tolist()
            pairs = [self._read(*segment, options) for segment in zip(*columns, strict=True)]
            inputs, targets = ([pair[i] for pair in pairs] for i in (0, 1))
            samples.append(BlockSample(block, inputs, targets, self._template, self.targets_per))
        return samples if step is None else StepList(samples, step)

    def _read(
        self, sequence: int, first: int, length: int, options: dict[str, int]
    ) -> tuple[Any, Any]:
        """Return copies of the inputs and targets of a segment."""
        try:
            result = self.source.read(sequence, first, length, **options)
        except Exception as error:
            if not isinstance(error, InputError):
                error.add_note(f"in {self._call(sequence, first, length)}")
            check_sendable(error)
            raise
        is_pair = isinstance(result, tuple) and len(result) == 2
        inputs, targets = result if is_pair else (result, None)
        is_bare = targets is None and self._template[1] is None
        if is_bare or self.targets_per == "frame":  # targets first, since inputs are the larger
            targets = copy_alike(targets, self._template[1], length)
            if is_bare or targets is not None:
                inputs = copy_alike(inputs, self._template[0], length)
                if inputs is not None:
                    return inputs, targets
        opening = f"{self._call(sequence, first, length)} returned"
        return take_values(result, self.targets_per, opening, self._template, length)

    def _call(self, sequence: int, first: int, length: int) -> str:
        is_item = isinstance(self.source, DatasetSource)
        call = f"dataset[{sequence}]" if is_item else f"read({sequence}, {first}, {length})"
        return call if self.names is None else f"{call} of {self.names[sequence]}"


def take_values(
    result: Any,
    targets_per: TargetsPer,
    opening: str,
    template: tuple[Any, Any],
    length: int | None = None,
) -> tuple[Any, Any]:
    """Return copies of inputs and targets that a source gives, as tensors where they are arrays.

    Args:
        result: inputs, or a pair of inputs and targets, see `SequenceSource.read`.
        template: inputs and targets to agree with in kind; None and None if these are the first.
        length: required number of frames; None takes any.

    Raises:
        InputError: the result is of another form, another kind or another number of frames.
    """
    values = result if isinstance(result, tuple) else (result, None)
    if len(values) != 2:
        raise InputError(
            f"{opening} {len(values)} parts; give inputs, or the pair of inputs and targets, each "
            "of which may be a dict"
        )
    try:
        inputs, targets = (map_values(value, copy_value) for value in values)
    except InputError as error:
        raise InputError(f"{opening} {error}") from None
    if targets_per == "sequence":
        targets = map_values(targets, as_column)
    parts = zip(("inputs", "targets"), (inputs, targets), template, strict=True)
    for name, tree, expected in parts:
        if name == "inputs" or (targets_per == "frame" and targets is not None):
            length = _count(opening, name, tree, length)
        if template[0] is not None and describe(tree) != describe(expected):
            others = ", or lists of objects, as from_dataset(..., objects=) makes"
            if targets_per == "sequence":
                others += f'; or targets_per="frame" if they are one for each of {length} frames'
            raise InputError(
                f"{opening} {describe(tree)} as {name}, but the first has {describe(expected)}; "
                f"give all of one dtype and shape{others if name == 'targets' else ''}"
            )
    return inputs, targets


def _count(opening: str, name: str, tree: Any, length: int | None) -> int:
    """Return the number of frames; raise InputError unless there is a value for each."""
    takes_lists = name == "targets"
    remedy = ', or set targets_per="sequence"' if takes_lists else ""
    parts = {name: tree}
    if isinstance(tree, dict) and tree:
        parts = {f"{name} {key!r}": part for key, part in tree.items()}
    for key, part in parts.items():
        is_tensor = isinstance(part, Tensor) and part.dim() > 0
        if not (is_tensor or (takes_lists and isinstance(part, list | tuple))):
            kind = type(part).__name__ + (f" of {part.dtype}" if hasattr(part, "dtype") else "")
            advice = f"give a tensor or array (frames, ...){remedy}"
            raise InputError(f"{opening} {key} of type {kind}; {advice}")
    counts = {len(part) for part in parts.values()}
    expected = length or max(counts)
    if counts != {expected}:
        given = " and ".join(map(str, sorted(counts)))
        raise InputError(f"{opening} {given} {name}, not {expected}; give one per frame{remedy}")
    return expected
