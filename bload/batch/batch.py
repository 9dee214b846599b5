"""A batch: blocks of frames, with masks for the slots that hold a frame and those that start one.

B blocks, T slots, S segments, V valid frames.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bload.batch.boundaries import Boundaries
from bload.batch.segments import Segments, masks_from_segments
from bload.batch.trees import described, empty, get_state, join, kind, on_tensors, set_state
from bload.errors import InputError
from bload.packing.plan import Block


@dataclass(frozen=True, slots=True, eq=False)
class BlockSample:
    """One block as read, without padding: the frames of its segments in slot order."""

    block: Block
    inputs_V: Any
    """Tensor ``(V, ...)``, or a dict of them."""
    targets_V: Any = None
    """The same, or a list with an entry per frame; None without targets per frame."""
    targets_S: Any = None
    """Tensor ``(S, ...)`` or a list with an entry per segment, or a dict of them; None without
    targets per sequence."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Boundaries):
    """Input of a training step: frames, targets, and where sequences begin and end.

    Padding has ``valid_BT`` False; losses, matching, batch statistics and metrics have to leave it
    out. In the last step of an epoch a rank's batch may be all padding, a filler: it has the
    usual shapes and dtypes and no target. `bload.mean_loss` is right then; a mean is not.
    """

    inputs_BT: Any
    """Tensor ``(B, T, ...)`` in the source's dtype (images stay uint8 until the device), or a dict
    of them; on padding 0 or the loader's pad value."""
    targets_BT: Any = None
    """Targets per frame that are tensors: likewise, on padding -100 if they are integers, else 0.
    Unsigned ones become int64 for that unless there is a pad value. Else None."""
    targets: tuple[Any, ...] = ()
    """Targets per frame that are no tensors, one per valid frame, row-major: the i-th belongs to
    the i-th True of ``valid_BT``."""
    targets_S: Any = None
    """Targets per sequence, one per segment: a tensor ``(S, ...)`` if they are numbers or tensors,
    a dict by key, else a tuple. None without them."""
    ends_step: bool = True
    """False if more batches of this rank follow before the optimiser takes its step."""
    frames_in_step: int = 0
    """Frames of all batches of the step, on all ranks, as `BlockLoader` sets it."""
    continues_B: Tensor | None = None
    """Bool ``(B,)``, under ``long="carry"`` alone: the row goes on with its state at the end of the
    batch a step before; its first slot is no start."""

    def __repr__(self) -> str:
        blocks, slots = self.valid_BT.shape
        parts = [f"{blocks} x {slots} slots", f"{len(self.segments)} segments"]
        for name in ("inputs_BT", "targets_BT", "targets", "targets_S"):
            if description := described(getattr(self, name)):
                parts.append(f"{name} {description}")
        return f"Batch({', '.join(parts)})"

    def __getstate__(self) -> list[Any]:
        return get_state(self)

    def __setstate__(self, state: list[Any]) -> None:
        set_state(self, state)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on `device`; other targets stay as they are."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Return the batch in page-locked memory, as a DataLoader with ``pin_memory=True`` asks."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        others = ("segments", "targets", "ends_step", "frames_in_step")
        names = [field.name for field in fields(self) if field.name not in others]
        changed = {name: on_tensors(getattr(self, name), change) for name in names}
        old = self.segments
        columns = change(old.block_S), change(old.slot_S), change(old.length_S)
        return replace(self, segments=Segments(*columns, old.longest), **changed)


def collate_blocks(samples: Sequence[BlockSample], pad: Mapping[str, float] = {}) -> Batch:
    """Put blocks of equal ``t_max`` side by side into a `Batch`, in the order given.

    Args:
        pad: values of padding by key of the frames or targets; those that are no dict have the
            keys ``frames`` and ``targets``.

    Raises:
        InputError: frames or targets of different kinds, a pad value that is no number, that its
            tensor cannot hold or for a key that there is not.
    """
    _check_pad(pad, samples[0])
    blocks = [sample.block for sample in samples]
    t_max = blocks[0].t_max
    block_S, slot_S, length_S, sequence_S, first_S = (
        torch.as_tensor(np.concatenate(column))
        for column in (
            [np.full(len(block.length), b, np.int64) for b, block in enumerate(blocks)],
            [block.starts for block in blocks],
            [block.length for block in blocks],
            [block.sequence for block in blocks],
            [block.first for block in blocks],
        )
    )
    segments = Segments(block_S, slot_S, length_S, int(length_S.max()) if len(length_S) else 0)
    valid_BT, start_BT, segment_BT = masks_from_segments(segments, len(blocks), t_max)

    # Row-major order of valid frames is segment after segment, so ragged values unroll by repeat.
    continues_B = torch.tensor([block.continues for block in blocks])
    start_BT[:, 0] &= ~continues_B
    sequence_BT = torch.full((len(blocks), t_max), -1)
    sequence_BT[valid_BT] = sequence_S.repeat_interleave(length_S)
    slots_BT = torch.arange(t_max).expand(len(blocks), t_max)
    position_BT = torch.zeros((len(blocks), t_max), dtype=torch.int64)
    position_BT[valid_BT] = slots_BT[valid_BT] + (first_S - slot_S).repeat_interleave(length_S)

    targets_V = [sample.targets_V for sample in samples]
    objects = isinstance(targets_V[0], list)
    return Batch(
        inputs_BT=_in_blocks([sample.inputs_V for sample in samples], t_max, pad, "frames", 0),
        targets_BT=None if objects else _in_blocks(targets_V, t_max, pad, "targets", -100),
        targets=tuple(target for some in targets_V for target in some) if objects else (),
        targets_S=_frozen(join([sample.targets_S for sample in samples])),
        valid_BT=valid_BT,
        start_BT=start_BT,
        segment_BT=segment_BT,
        sequence_BT=sequence_BT,
        position_BT=position_BT,
        segments=segments,
        continues_B=continues_B if continues_B.any() else None,
    )


def _in_blocks(
    values_V: Sequence[Any], t_max: int, pad: Mapping[str, float], name: str, label: float
) -> Any:
    """Values of each block -> ``(B, T, ...)``; integers are padded by `label`, others by 0."""
    like = values_V[0]
    if len({kind(values) for values in values_V}) > 1:
        kinds = " and ".join(sorted({kind(values) for values in values_V}))
        raise InputError(f"{name} of one batch differ: {kinds}; read has to return all of one kind")
    if like is None:
        return None
    if isinstance(like, dict):
        return {
            key: _in_blocks([values[key] for values in values_V], t_max, pad, key, label)
            for key in like
        }
    dtype, is_whole = like.dtype, not (like.is_floating_point() or like.is_complex())
    value = pad.get(name, label if is_whole and dtype != torch.bool else 0)
    if is_whole and torch.tensor(value).to(dtype).item() != value:
        if name in pad:
            raise InputError(f"pad[{name!r}] is {value}, which a tensor of {dtype} cannot hold")
        dtype = torch.int64  # room for -100, without which padding would be a class
    if len(values_V) == 1 and len(like) == t_max and dtype == like.dtype:
        return like[None]  # a full block alone is the batch
    padded_BT = empty((len(values_V), t_max, *like.shape[1:]), dtype)
    for row, values in zip(padded_BT, values_V, strict=True):
        row[: len(values)] = values
        row[len(values) :] = value
    return padded_BT


def _frozen(tree: Any) -> Any:
    """The tree with tuples for lists."""
    if isinstance(tree, dict):
        return {key: _frozen(part) for key, part in tree.items()}
    return tuple(tree) if isinstance(tree, list) else tree


def _check_pad(pad: Mapping[str, float], sample: BlockSample) -> None:
    """Refuse pad values that are no numbers, or for keys that frames and targets do not have."""
    keys: list[str] = []
    for name, tree in (("frames", sample.inputs_V), ("targets", sample.targets_V)):
        keys += tree if isinstance(tree, dict) else [name] * isinstance(tree, Tensor)
    for key, value in pad.items():
        if key not in keys:
            raise InputError(f"pad has the key {key!r}; there are {', '.join(keys)}")
        if not isinstance(value, Number):
            raise InputError(f"pad[{key!r}] is {value!r}; it has to be a number")
