"""Sources from map-style data sets, such as those of Hugging Face."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from bload.batch.batch import TargetsPer
from bload.batch.trees import Kept, as_tensors
from bload.errors import InputError, check_choice
from bload.lengths import check_lengths

Key = str | Sequence[str]


class DatasetSource:
    """Source over a data set whose items are whole sequences; `from_dataset` makes it."""

    advice = (
        "every item has to be like item 0, with numbers all as floats if some are; from_dataset("
        "..., objects=True) keeps targets as they are"
    )

    def __init__(
        self,
        dataset: Any,
        lengths: np.ndarray,
        inputs: Key | None,
        targets: Key | None,
        targets_per: TargetsPer,
        objects: bool | Key,
    ) -> None:
        self.dataset = dataset
        self.lengths = lengths
        self.inputs = inputs
        self.targets = targets
        self.targets_per = targets_per
        self.objects = objects
        self._float = torch.get_default_dtype()  # that of the main process, in every worker
        self._likes: dict[tuple[str, str], Any] = {}
        """Values of item 0 without frames, by role and key; an empty list stands for objects."""
        self._is_plain = False
        """True if items are tensors, or pairs of tensors, by frame."""

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return ``frames`` or ``frames, targets``; see `bload.SequenceSource`."""
        if not self._likes:
            self._likes = self._likes_of_item_0()
            inputs, targets = (self._likes.get((role, role)) for role in ("inputs", "targets"))
            is_by_frame = isinstance(targets, Tensor) and self.targets_per == "frame"
            self._is_plain = isinstance(inputs, Tensor) and (targets is None or is_by_frame)
        item = self.dataset[sequence]
        if self._is_plain and length == self.lengths[sequence]:
            frames = item[0] if type(item) is tuple else item
            if isinstance(frames, Tensor) and frames.dim() and frames.size(0) == length:
                return item  # fast path; `BlockDataset` checks the kind
        trees = []
        for role, tree in self._parts_of(item, sequence).items():
            values = tree if isinstance(tree, Mapping) else {role: tree}
            parts = {
                key: self._part(role, key, value, sequence, slice(first, first + length))
                for key, value in values.items()
            }
            trees.append(parts if isinstance(tree, Mapping) else parts[role])
        return trees[0], trees[1]

    def _parts_of(self, item: Any, number: int) -> dict[str, Any]:
        """Return inputs and targets of an item."""
        fault = ""
        if isinstance(item, Mapping):
            if self.inputs is None and self.targets is None and len(item) > 1:
                fault = f"a dict of {_names(item)}; name its keys: inputs=..., targets=..."
            else:
                named = _keys(self.targets)
                inputs = self.inputs or [key for key in item if key not in named]
                targets = None if self.targets is None else _pick(item, self.targets)
                return {"inputs": _pick(item, inputs), "targets": targets}
        elif self.inputs is not None or self.targets is not None:
            fault = f"a {type(item).__name__}, not a dict; leave inputs and targets out"
        elif isinstance(item, str | bytes):
            fault = "text; give its numbers, such as tokens or [*text.encode()]"
        elif isinstance(item, tuple) and len(item) != 2:
            fault = f"a tuple of {len(item)}; give pairs (inputs, targets), or dicts"
        if fault:
            raise InputError(f"item {number} is {fault}")
        inputs, targets = item if isinstance(item, tuple) else (item, None)
        return {"inputs": inputs, "targets": targets}

    def _part(self, role: str, key: str, value: Any, sequence: int, part: slice) -> Any:
        """Return the frames of a part of a value, or the whole value of a target per sequence."""
        like = self._likes.get((role, key))
        if value is like is None:
            return None
        if self._is_per_frame(role):
            frames = None if _is_one(value) else len(value)
            if frames != self.lengths[sequence]:
                has = "is one value" if frames is None else f"has {frames} frames"
                raise InputError(
                    f"{key} of item {sequence} {has} but its length is {self.lengths[sequence]}; "
                    'correct length, choose other inputs, or set targets_per="sequence"'
                )
        if isinstance(like, list):
            return [*value[part]] if self._is_per_frame(role) else Kept(value)
        array = self._array(value, role, like)
        if array is None:  # not of the kind of item 0
            return value
        return array[part] if self._is_per_frame(role) else array

    def _is_per_frame(self, role: str) -> bool:
        return role == "inputs" or self.targets_per == "frame"

    def _likes_of_item_0(self) -> dict[tuple[str, str], Any]:
        trees = self._parts_of(self.dataset[0], 0)
        is_dict = isinstance(trees["targets"], Mapping)
        names = _keys(self.targets) or ({*trees["targets"]} if is_dict else {"targets"})
        kept = names if self.objects is True else _keys(self.objects or ())
        if not kept <= names:
            raise InputError(
                f"objects names {_names(kept - names)}, but the targets are {_names(names)}"
            )
        likes: dict[tuple[str, str], Any] = {}
        for role, tree in trees.items():
            for key, value in (tree if isinstance(tree, Mapping) else {role: tree}).items():
                like = None if value is None else self._like(self._array(value, role), role)
                if role == "targets" and (key in kept if is_dict else kept):
                    like = []
                if role == "inputs" and not isinstance(like, Tensor):
                    raise InputError(
                        f"{key} of item 0 are of type {type(value).__name__}; give inputs as a "
                        "tensor, an array or nested lists of numbers of one shape"
                    )
                likes[role, key] = like
        return likes

    def _like(self, array: Any, role: str) -> Any:
        """Return a tensor of the kind of an array, without frames; an empty list for None."""
        if array is None:
            return []
        return as_tensors(array[:0] if self._is_per_frame(role) and array.shape else array[None])[
            :0
        ]

    def _array(self, value: Any, role: str, like: Any = None) -> Any:
        """Return the numbers of a value as a tensor or array, None if it has others than numbers.

        Args:
            like: a tensor; lists of whole numbers are converted to its dtype if it is of floats.
        """
        if hasattr(value, "to_numpy"):  # pandas
            value = value.to_numpy()
        if isinstance(value, Tensor):
            return value
        if hasattr(value, "shape") and not isinstance(value, np.generic):  # numpy, h5py, zarr
            return value if value.dtype.kind in "biufc" else None
        entry = value
        while isinstance(entry, list | tuple) and entry:
            entry = entry[0]
        try:
            array = np.asarray(value)
        except (ValueError, TypeError):  # lists of different lengths
            return None
        if getattr(entry, "shape", ()):  # a list of arrays: objects, if they are targets
            return array if role == "inputs" and array.dtype.kind in "biufc" else None
        if array.dtype.kind == "f":
            return torch.from_numpy(array).to(self._float)
        if not np.can_cast(array.dtype, np.int64):
            return None
        dtype = torch.bool if array.dtype == bool else torch.int64
        is_float = isinstance(like, Tensor) and like.dtype == self._float
        return torch.from_numpy(array).to(like.dtype if is_float else dtype)


def from_dataset(
    dataset: Any,
    length: str | Sequence[int] | np.ndarray | Callable[[Any], int] | None = None,
    *,
    inputs: Key | None = None,
    targets: Key | None = None,
    targets_per: TargetsPer = "frame",
    objects: bool | Key = False,
) -> DatasetSource:
    """Make a source for `BlockLoader` from a data set whose items are whole sequences.

        source = from_dataset(hf_dataset, length="input_ids", targets="labels")

    Args:
        dataset: object with ``len`` and ``[i]``, or a pandas object, which is read by position. An
            item is a dict, a tuple ``inputs, targets``, or the inputs alone. Arrays keep their
            dtype. Nested lists of numbers of one shape become tensors: int64, bool, or torch's
            default dtype for floats. Targets that are anything else stay objects. Item 0 decides.
        length: frames of each sequence, required: the name of a column with these numbers or with
            entries of these lengths; a list with one number per sequence; or a function of an item,
            such as ``len``, which reads every item once.
        inputs: key or keys of the inputs in a dict; None takes all keys except the targets.
        targets: key or keys of the targets in a dict; None means no targets.
        targets_per: ``frame``, or ``sequence`` for one target per sequence.
        objects: True, or the keys of the targets that stay as they are, such as lists or tensors of
            different shapes: boxes per frame, or a transcript per sequence.

    Raises:
        InputError: at once, if there is no ``len`` or not one positive length per sequence; on
            reading, if an item lacks a key, has another number of frames, or other shapes or dtypes
            than item 0.
    """
    check_choice("targets_per", targets_per, ("frame", "sequence"))
    if not hasattr(dataset, "__len__") or isinstance(dataset, Mapping | IterableDataset):
        raise InputError(
            f"a data set has len and [i] with a number i, and {type(dataset).__name__} has not; "
            "StreamLoader packs data that can only be iterated over"
        )
    if hasattr(dataset, "iloc"):  # pandas, whose [i] looks for the label i
        dataset = dataset.to_dict("records") if hasattr(dataset, "columns") else dataset.tolist()
    lengths: Any
    if isinstance(length, str):
        column = _column(dataset, length)
        lengths = [value if _is_one(value) else len(value) for value in column]
    elif callable(length):
        if length is len and len(dataset) and isinstance(dataset[0], tuple | Mapping):
            which = f"[{next(iter(dataset[0]))!r}]" if isinstance(dataset[0], Mapping) else "[0]"
            raise InputError(
                f"len of item 0 is {len(dataset[0])}, the number of its parts; give "
                f"length=lambda item: len(item{which})"
            )
        lengths = [length(dataset[number]) for number in range(len(dataset))]
    elif isinstance(length, Iterable):
        lengths = length if hasattr(length, "__len__") else [*length]
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
    return DatasetSource(dataset, check_lengths(lengths), inputs, targets, targets_per, objects)


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
        raise InputError(f"an item has no {missing[0]!r}; it has {_names(item)}")
    return item[key] if isinstance(key, str) else {name: item[name] for name in names}


def _keys(names: Any) -> set[str]:
    return {names} if isinstance(names, str) else {*(names or ())}


def _names(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, keys)) or "none"
