"""Sources from map-style data sets, such as those of Hugging Face."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from bload.batch.batch import TargetsPer
from bload.batch.trees import Kept, check_dense
from bload.errors import InputError, check_choice
from bload.lengths import freeze_lengths

Key = str | Sequence[str]


@dataclass(eq=False, repr=False)
class DatasetSource:
    """Source over a data set whose items are whole sequences; `from_dataset` makes it."""

    dataset: Any
    lengths: np.ndarray
    inputs: Key | None
    targets: Key | None
    targets_per: TargetsPer
    objects: bool | Key
    float_dtype: torch.dtype = field(default_factory=torch.get_default_dtype)
    """That of the main process, in every worker."""
    kinds: dict[tuple[str, str], Any] = field(default_factory=dict, init=False)
    """By role and key: dtype of the numbers of item 0, `list` for objects."""

    def read(self, sequence: int, first: int, length: int) -> Any:
        """Return ``inputs`` or ``inputs, targets``; see `bload.SequenceSource`."""
        if not self.kinds:
            self.kinds = self._find_kinds()
        inputs, targets = self._split(self.dataset[sequence], sequence)
        part = slice(first, first + length)
        return (
            self._convert_all("inputs", inputs, sequence, part),
            self._convert_all("targets", targets, sequence, part),
        )

    def _split(self, item: Any, number: int) -> tuple[Any, Any]:
        fault = ""
        if hasattr(item, "columns"):  # a table of pandas or polars
            item = {name: item[name] for name in item.columns}
        if isinstance(item, Mapping):
            if self.inputs is None and self.targets is None and len(item) > 1:
                fault = f"a dict of {_names(item)}; name its keys: inputs=... or targets=..."
            else:
                inputs = self.inputs or [key for key in item if key not in _keys(self.targets)]
                return _pick(item, inputs, number), _pick(item, self.targets, number)
        elif self.inputs is not None or self.targets is not None:
            fault = f"a {type(item).__name__}, not a dict; leave inputs and targets out"
        elif isinstance(item, str | bytes):
            fault = "text; give its numbers, such as tokens or [*text.encode()]"
        elif isinstance(item, tuple) and len(item) != 2:
            fault = f"a tuple of {len(item)}; give pairs (inputs, targets), or dicts"
        elif isinstance(item, list) and len(item) == 2 and self.lengths[number] != 2:
            fault = f"a list of 2, not {self.lengths[number]}; give pairs as tuples or dicts"
        if fault:
            raise InputError(f"item {number} is {fault}")
        return item if isinstance(item, tuple) else (item, None)

    def _parts(self, role: str, tree: Any) -> Mapping[str, Any]:
        if isinstance(tree, Mapping):
            return tree
        return {} if tree is None else {self._key(role): tree}

    def _key(self, role: str) -> str:
        given = self.inputs if role == "inputs" else self.targets
        return given if isinstance(given, str) else role

    def _find_kinds(self) -> dict[tuple[str, str], Any]:
        trees = self._split(self.dataset[0], 0)
        names = {*self._parts("targets", trees[1])}
        kept = names if self.objects is True else _keys(self.objects)
        if not kept <= names or (self.objects and not names):
            raise InputError(f"objects names {_names(kept)}, but the targets are {_names(names)}")
        kinds: dict[tuple[str, str], Any] = {}
        for role, tree in zip(("inputs", "targets"), trees, strict=True):
            for key, value in self._parts(role, tree).items():
                is_kept = role == "targets" and key in kept
                array = None if is_kept else _as_array(value, role, self.float_dtype)
                kinds[role, key] = list if array is None else array.dtype
        return kinds

    def _convert_all(self, role: str, tree: Any, sequence: int, part: slice) -> Any:
        if tree is None:
            return None
        if not isinstance(tree, Tensor) and isinstance(tree, Mapping):
            return {key: self._convert(role, key, tree[key], sequence, part) for key in tree}
        return self._convert(role, self._key(role), tree, sequence, part)

    def _convert(self, role: str, key: str, value: Any, sequence: int, part: slice) -> Any:
        """Return the frames of a part of a value, or the whole value of a target per sequence."""
        kind = self.kinds.get((role, key))
        by_frame = role == "inputs" or self.targets_per == "frame"
        is_usual = isinstance(value, Tensor) and value.dtype == kind and value.dim() > 0
        if is_usual and by_frame and value.shape[0] == self.lengths[sequence]:
            return value[part]  # in a fifth of the time of what follows
        is_object = role == "targets" and kind is list
        array = None if is_object else _as_array(value, role, self.float_dtype, kind)
        if role == "inputs" and array is None:
            dtype = getattr(value, "dtype", "objects")
            raise InputError(
                f"{key} of item {sequence} are of type {type(value).__name__} of {dtype}; give "
                "inputs as a tensor, an array or nested lists of numbers of one shape and of the "
                "dtype of item 0, pairs as tuples, and leave out other keys by inputs="
            )
        if by_frame and (frames := _length(value)) != self.lengths[sequence]:
            size = "one value" if frames is None else f"{frames} frames"
            advice = "choose other inputs" if role == "inputs" else 'set targets_per="sequence"'
            raise InputError(
                f"item {sequence} has {size} of {key} but its length is {self.lengths[sequence]}; "
                f"correct length, or {advice}"
            )
        if is_object:
            return [*value[part]] if by_frame else Kept(value)
        values = value if array is None else array  # of another kind, as `BlockDataset` will say
        return values[part] if by_frame else values


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
        inputs: key or keys of the inputs in a dict; None takes all but the targets, in a dict.
        targets: key or keys of the targets in a dict; None means none, and `inputs` are named then.
        targets_per: ``frame``, or ``sequence`` for one target per sequence.
        objects: True, or the keys of the targets that stay as they are, such as lists or tensors of
            different shapes: boxes per frame, or a transcript per sequence.

    Raises:
        InputError: at once, if there is no ``len`` or not one positive length per sequence; on
            reading, if an item lacks a key, or has not its length or item 0's shapes and dtypes.
    """
    check_choice("targets_per", targets_per, get_args(TargetsPer))
    if not isinstance(objects, bool) and not hasattr(objects, "__iter__"):
        raise InputError(f"objects is {objects!r}; give True, False or the keys of targets")
    sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not sized or isinstance(dataset, Mapping | IterableDataset) or hasattr(dataset, "ngroups"):
        raise InputError(
            f"a data set has len and [i] with a number i, and {type(dataset).__name__} has not; "
            "choose one split of several, give a list of items for a dict of columns or a groupby, "
            "or pack what can only be iterated over by StreamLoader"
        )
    if hasattr(dataset, "iloc"):  # pandas, whose [i] looks for the label i
        dataset = dataset.to_dict("records") if hasattr(dataset, "columns") else dataset.tolist()
    elif hasattr(dataset, "to_dicts"):  # polars
        dataset = dataset.to_dicts()
    lengths = freeze_lengths(_lengths_of(dataset, length)).lengths
    return DatasetSource(dataset, lengths, inputs, targets, targets_per, objects)


def _lengths_of(dataset: Any, length: Any) -> Any:
    """Return one length per item; `length` is that of `from_dataset`."""
    lengths = length
    if isinstance(length, str):
        try:
            is_column = length in getattr(dataset, "column_names", ())  # of Hugging Face
            numbers = range(len(dataset))
            column = dataset[length] if is_column else [dataset[i][length] for i in numbers]
        except (KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"the data set has no column {length!r}; give length as a list of numbers or a "
                "function of an item"
            ) from error
        lengths = [value if (n := _length(value)) is None else n for value in column]
    elif callable(length):
        if length is len and len(dataset) and isinstance(dataset[0], tuple | Mapping):
            index = f"[{next(iter(dataset[0]))!r}]" if isinstance(dataset[0], Mapping) else "[0]"
            raise InputError(
                f"len of item 0 is {len(dataset[0])}, the number of its parts; give "
                f"length=lambda item: len(item{index})"
            )
        lengths = [length(dataset[number]) for number in range(len(dataset))]
    elif not hasattr(length, "__len__"):
        raise InputError(
            f"length is {length!r}; give the name of a column, a list of one number per sequence, "
            "or a function of an item, such as len"
        )
    if len(lengths) != len(dataset):
        raise InputError(
            f"length gives {len(lengths)} numbers but the data set has {len(dataset)} sequences; "
            "give one per sequence"
        )
    return lengths


def _length(value: Any) -> int | None:
    """Return the length of a sequence, None for a single value, such as a string."""
    is_single = isinstance(value, str) or not hasattr(value, "__len__") or hasattr(value, "toarray")
    if is_single or getattr(value, "ndim", 1) == 0:
        return None
    return len(value)


def _pick(item: Mapping[str, Any], key: Key | None, number: int) -> Any:
    if missing := sorted(_keys(key) - {*item}):
        raise InputError(f"item {number} has no {missing[0]!r}; it has {_names(item)}")
    if isinstance(key, str):
        return item[key]
    return None if key is None else {name: item[name] for name in key}


def _keys(key: Any) -> set[str]:
    return {key} if isinstance(key, str) else {*(key or ())}


def _names(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, keys)) or "none"


def _as_array(value: Any, role: str, floats: torch.dtype, kind: Any = None) -> Any:
    """Return the numbers of a value as a tensor or array, None if it has others than numbers.

    Args:
        floats: dtype of lists of floats.
        kind: dtype of item 0; lists of whole numbers are converted to it if it is of floats.
    """
    if isinstance(value, Tensor):
        return check_dense(value)
    if hasattr(value, "toarray"):  # scipy's sparse arrays
        return None
    if hasattr(value, "shape") and not isinstance(value, np.generic):  # numpy, h5py, zarr
        value = value.to_numpy() if hasattr(value, "to_numpy") else value  # pandas, polars
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
        return torch.from_numpy(array.astype(np.float64)).to(floats)
    if not np.can_cast(array.dtype, np.int64):
        return None
    whole = torch.from_numpy(array if array.dtype == bool else array.astype(np.int64))
    if kind != floats:
        return whole
    return whole.to(floats) if torch.equal(whole.to(floats).to(whole.dtype), whole) else None
