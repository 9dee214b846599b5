"""Sources from map-style data sets, such as those of Hugging Face."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bload.batch.batch import TargetsPer
from bload.errors import InputError
from bload.lengths import check_lengths

Key = str | Sequence[str]
ARRAYS = Tensor, np.ndarray


class DatasetSource:
    """Source over a data set whose items are whole sequences; `from_dataset` makes it."""

    def __init__(
        self,
        dataset: Any,
        lengths: np.ndarray,
        inputs: Key | None,
        targets: Key | None,
        targets_per: TargetsPer,
    ) -> None:
        self.dataset = dataset
        self.lengths = lengths
        self.inputs = inputs
        self.targets = targets
        self.targets_per = targets_per

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return ``frames`` or ``frames, targets``; see `bload.SequenceSource`."""
        item = self.dataset[sequence]
        targets: Any = None
        if isinstance(item, ARRAYS) and item.shape[:1] == (length,) == (self.lengths[sequence],):
            return item  # fast path: a whole sequence without targets
        if isinstance(item, Mapping):
            taken = {self.targets} if isinstance(self.targets, str) else {*(self.targets or ())}
            inputs = self.inputs or [key for key in item if key not in taken]
            frames = _pick(item, inputs)
            targets = None if self.targets is None else _pick(item, self.targets)
        else:
            frames, targets = item if isinstance(item, tuple) else (item, None)
        if targets is not None and self.targets_per == "frame":
            targets = self._cut(targets, "targets", sequence, first, length)
        return self._cut(frames, "inputs", sequence, first, length), targets

    def _cut(self, tree: Any, name: str, sequence: int, first: int, length: int) -> Any:
        """Cut frames out of a whole sequence, or out of each value of a dict."""
        if isinstance(tree, ARRAYS) and tree.ndim and tree.shape[0] == self.lengths[sequence]:
            return tree if tree.shape[0] == length else tree[first : first + length]
        if isinstance(tree, Mapping):
            parts = tree.items()
            return {key: self._cut(value, key, sequence, first, length) for key, value in parts}
        frames = None if _is_one(tree) else len(tree)
        if frames != self.lengths[sequence]:
            has = "is one value" if frames is None else f"has {frames} frames"
            raise InputError(
                f"{name} of item {sequence} {has} but its length is {self.lengths[sequence]}; "
                'correct length, choose other inputs, or set targets_per="sequence"'
            )
        return _tensor(tree[first : first + length])


def from_dataset(
    dataset: Any,
    length: str | Sequence[int] | np.ndarray | Callable[[Any], int] | None = None,
    *,
    inputs: Key | None = None,
    targets: Key | None = None,
    targets_per: TargetsPer = "frame",
) -> DatasetSource:
    """Make a source for `BlockLoader` from a data set whose items are whole sequences.

        source = from_dataset(hf_dataset, length="input_ids", targets="labels")

    Args:
        dataset: object with ``len`` and ``[i]``. An item is a dict, a tuple ``inputs, targets``, or
            the inputs alone. Arrays and lists of numbers become tensors.
        length: frames of each sequence, required: the name of a column with these numbers or with
            entries of these lengths; a list with one number per sequence; or a function of an item,
            such as ``len``, which reads every item once.
        inputs: key or keys of the inputs in a dict; None takes all keys except the targets.
        targets: key or keys of the targets in a dict; None means no targets.
        targets_per: ``frame``, or ``sequence`` for one target per sequence.

    Raises:
        InputError: at once, if there is no ``len`` or not one positive length per sequence; on
            reading, if an item lacks a key or has another number of frames.
    """
    if not hasattr(dataset, "__len__"):
        raise InputError(
            f"a data set has len and [i], and {type(dataset).__name__} has no len; StreamLoader "
            "packs data without known lengths"
        )
    if isinstance(length, str):
        column = _column(dataset, length)
        lengths = [value if _is_one(value) else len(value) for value in column]
    elif callable(length):
        lengths = [length(dataset[number]) for number in range(len(dataset))]
    elif isinstance(length, Iterable):
        lengths = list(length)
    else:
        raise InputError(
            f"length is {length!r}; give the name of a column, a list of one number per sequence, "
            "or a function of an item, such as len"
        )
    if len(lengths) != len(dataset):
        raise InputError(
            f"length gives {len(lengths)} numbers but the data set has {len(dataset)} sequences; "
            "give one per sequence"
        )
    return DatasetSource(dataset, check_lengths(lengths), inputs, targets, targets_per)


def _column(dataset: Any, name: str) -> Sequence[Any]:
    """Return a column: at once if the data set has columns, else item by item."""
    try:
        if hasattr(dataset, "column_names"):  # Hugging Face
            column: Sequence[Any] = dataset[name]
            return column
        return [dataset[number][name] for number in range(len(dataset))]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"the data set has no column {name!r}; give length as a list of numbers or a function "
            "of an item"
        ) from error


def _is_one(value: Any) -> bool:
    """Return True unless the value is a sequence; a string is one value."""
    return isinstance(value, str) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0


def _pick(item: Mapping[str, Any], key: Key) -> Any:
    names = [key] if isinstance(key, str) else list(key)
    missing = [name for name in names if name not in item]
    if missing:
        raise InputError(f"an item has no {missing[0]!r}; it has {', '.join(map(repr, item))}")
    return item[key] if isinstance(key, str) else {name: item[name] for name in names}


def _tensor(values: Any) -> Any:
    """Convert lists of numbers to a tensor; return anything else unchanged."""
    if isinstance(values, Tensor | np.ndarray):
        return values
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return values
    return torch.from_numpy(array) if array.dtype.kind in "biuf" else values
