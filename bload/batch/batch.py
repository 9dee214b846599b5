"""Batch of blocks of frames, with masks of the valid slots and of the starts.

B blocks, T slots, S segments, V valid frames.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from numbers import Number
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bload.batch.boundaries import Boundaries
from bload.batch.segments import Segments
from bload.batch.step import Step, known
from bload.batch.trees import described, empty, get_state, join, kind, on_tensors, set_state
from bload.errors import InputError
from bload.packing.plan import Block

TargetsPer = Literal["frame", "sequence"]


@dataclass(slots=True, eq=False)
class BlockSample:
    """One block as read: inputs and targets of its segments, in slot order."""

    block: Block
    inputs: Sequence[Any]
    """One per segment: a tensor ``(frames, ...)``, or a dict of these."""
    targets: Sequence[Any]
    """One per segment. Per frame: as inputs, or a list with an entry per frame. Per sequence: a
    tensor ``(1, ...)``, a list of one entry, or a dict of these. None without targets."""
    like: tuple[Any, Any]
    """Inputs and targets without frames, which give fillers the usual shapes and dtypes."""
    targets_per: TargetsPer = "frame"


@dataclass(slots=True, eq=False)
class Batch(Boundaries):
    """Input of a training step: frames, targets, and boundaries of sequences.

    ``valid_BT`` is False on padding: exclude it from losses, matching, batch statistics and
    metrics. In the last step of an epoch, a rank's batch may be a filler: all padding, with the
    usual shapes and dtypes and no target. Use `bload.mean_loss` for it; a plain mean is wrong.
    """

    inputs_BT: Any
    """Tensor ``(B, T, ...)`` in the source's dtype (images stay uint8 until the device), or a
    dict of these. Padding is 0 or the loader's pad value."""
    targets_BT: Any = None
    """Targets per frame that are tensors, in the same form, else None. Padding is -100 for
    integers, else 0. Without a pad value, unsigned integers become int64 to hold -100."""
    targets: Any = ()
    """Targets per frame that are not tensors: a tuple with one per valid frame, row-major, the
    i-th for the i-th True of ``valid_BT``; a dict of these if the source's targets are a dict."""
    targets_S: Any = None
    """One target per segment: a tensor ``(S, ...)`` for numbers or equally shaped tensors, a
    dict of these, or a tuple of objects. None for targets per frame."""
    step: Step | None = None
    """Optimiser step of the batch; None if it comes from no loader. Read it by the names below."""
    continues_B: Tensor | None = None
    """bool ``(B,)``, only with ``long="carry"``: the row continues with its state at the end of
    the batch a step before, and its first slot is no start."""

    @property
    def frames_in_step(self) -> int:
        """Frames of all batches of the optimiser step, over all ranks."""
        return known(self.step).frames

    @property
    def batches_in_step(self) -> int:
        """Batches of this rank in the optimiser step."""
        return known(self.step).batches

    @property
    def ends_step(self) -> bool:
        """False if more batches follow before the optimiser step."""
        return known(self.step).ends

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

    def transformers(
        self,
        *,
        rows: bool = False,
        first_position: int = 0,
        flash_attn: bool = False,
        seq_idx: bool = False,
    ) -> dict[str, Any]:
        """Return the inputs of a Hugging Face transformers model, as one row without padding.

        Keys and shapes are those of `DataCollatorWithFlattening`: ``input_ids``, ``labels`` and
        ``position_ids``, ``(1, V)``. The models shift labels themselves, so the labels are the
        unshifted targets, or else the tokens, and -100 where a segment starts. A filler has one
        token without a label.

        Args:
            rows: keep blocks as rows, ``(B, T)``. Attention that computes what it masks then costs
                B x T x T instead of V x V. Kernels that take `flash_attn` need one row.
            first_position: position at a start; RoBERTa and similar models use ``padding_idx + 1``.
            flash_attn: add ``cu_seq_lens_q`` and similar keys, for a flash ``attn_implementation``.
            seq_idx: add ``seq_idx``, for layers whose kernels take it, see `bload.find_form`.
        """
        used_BT = self.valid_BT
        if not len(self.segments):
            used_BT = used_BT.clone()
            used_BT[0, 0] = True
        for name in ("inputs_BT", "targets_BT"):
            values = getattr(self, name)
            if isinstance(values, dict) or (values is not None and values.is_floating_point()):
                what = f"a dict of {', '.join(values)}" if isinstance(values, dict) else "of floats"
                raise InputError(
                    f"{name} is {what}; transformers() takes one tensor of tokens and one of "
                    'labels, both whole numbers: from_dataset(..., inputs="input_ids")'
                )
        if self.targets or self.targets_S is not None:
            raise InputError("transformers() takes labels per token, as a tensor, or none")
        labels_BT = self.inputs_BT if self.targets_BT is None else self.targets_BT
        labels_BT = labels_BT.long().masked_fill(self.start_BT | ~self.valid_BT, -100)
        row = {
            "input_ids": self.inputs_BT.long(),
            "labels": labels_BT,
            "position_ids": self.segment_position_BT + first_position,
        }
        if seq_idx:
            row["seq_idx"] = self.number_BT.to(torch.int32)
        if rows:
            return row
        found: dict[str, Any] = {key: of_BT[used_BT][None] for key, of_BT in row.items()}
        if flash_attn:
            bounds = self.cu_seqlens if len(self.segments) else self.cu_seqlens.new_tensor([0, 1])
            found |= {f"cu_seq_lens_{end}": bounds for end in "qk"}
            found |= {f"max_length_{end}": max(self.max_seqlen, 1) for end in "qk"}
        return found

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on `device`; other targets do not change."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Return the batch in page-locked memory, for a DataLoader with ``pin_memory=True``."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        others = ("segments", "targets", "step")
        names = [field.name for field in fields(self) if field.name not in others]
        changed = {name: on_tensors(getattr(self, name), change) for name in names}
        old = self.segments
        columns = old.block_S, old.slot_S, old.length_S, old.sequence_S, old.first_S
        return replace(
            self, segments=Segments(*map(change, columns), longest=old.longest), **changed
        )


def collate_blocks(samples: Sequence[BlockSample], pad: Mapping[str, float] = {}) -> Batch:
    """Collate blocks of equal ``t_max`` into a `Batch`, in the order given.

    Args:
        pad: padding values by key of the frames or targets; the keys are ``frames`` and ``targets``
            for those that are not a dict.

    Raises:
        InputError: frames or targets differ in kind, or a pad value is not a number, does not fit
            the dtype of its tensor, or has an unknown key.
    """
    like, per_frame = samples[0].like, samples[0].targets_per == "frame"
    _check_alike(samples)
    _check_pad(pad, like)
    blocks = [sample.block for sample in samples]
    t_max = blocks[0].t_max
    block_S = np.repeat(np.arange(len(blocks)), [len(block.length) for block in blocks])
    slot_S, length_S, sequence_S, first_S = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("starts", "length", "sequence", "first")
    )
    valid_BT, start_BT = np.zeros((2, len(blocks), t_max), dtype=bool)
    for block, slot, length in zip(block_S, slot_S, length_S, strict=True):
        valid_BT[block, slot : slot + length] = True
    start_BT[block_S, slot_S] = True
    continues = [block.continues for block in blocks]
    start_BT[:, 0] &= ~np.array(continues)

    inputs, targets = ([getattr(sample, of) for sample in samples] for of in ("inputs", "targets"))
    flat = [*chain.from_iterable(targets)]
    in_blocks = partial(_in_blocks, blocks=blocks, pad=pad)
    return Batch(
        inputs_BT=in_blocks(inputs, like[0], name="frames", label=0),
        targets_BT=in_blocks(targets, _tensors(like[1]), name="targets", label=-100)
        if per_frame
        else None,
        targets=_objects(flat, like[1]) if per_frame else (),
        targets_S=None if per_frame else _frozen(join([like[1], *flat])),
        valid_BT=torch.from_numpy(valid_BT),
        start_BT=torch.from_numpy(start_BT),
        segments=Segments(
            *map(torch.from_numpy, (block_S, slot_S, length_S, sequence_S, first_S)),
            longest=int(length_S.max(initial=0)),
        ),
        step=getattr(samples, "step", None),
        continues_B=torch.tensor(continues, device="cpu") if any(continues) else None,
    )


def _in_blocks(
    pieces: Sequence[Sequence[Any]],
    like: Any,
    *,
    blocks: Sequence[Block],
    pad: Mapping[str, float],
    name: str,
    label: float,
) -> Any:
    """Put the values of each block's segments into rows, ``(B, T, ...)``.

    Args:
        pieces: values by block and segment.
        like: values without frames.
        blocks: places of the segments.
        label: padding of integers, unless `pad` has a value; other dtypes get 0.
    """
    if like is None:
        return None
    if isinstance(like, dict):
        same: dict[str, Any] = {"blocks": blocks, "pad": pad, "label": label}
        return {
            key: _in_blocks([[one[key] for one in of] for of in pieces], part, name=key, **same)
            for key, part in like.items()
        }
    dtype, is_whole = like.dtype, not (like.is_floating_point() or like.is_complex())
    value = pad.get(name, label if is_whole and dtype != torch.bool else 0)
    stored = torch.tensor(value, device="cpu").to(dtype).item()
    if (stored != value) if is_whole else (math.isfinite(value) and not math.isfinite(stored)):
        if name in pad:
            raise InputError(f"pad[{name!r}] is {value}, which a tensor of {dtype} cannot hold")
        if dtype == torch.uint64:
            raise InputError(f"{name} are uint64, which int64 may not hold; give int64, or a pad")
        dtype = torch.int64  # room for -100, so that padding is not a class
    padded_BT = empty((len(pieces), blocks[0].t_max, *like.shape[1:]), dtype)
    for row, some, block in zip(padded_BT, pieces, blocks, strict=True):
        frames = block.frames
        if block.multiple_of > 1:
            row[:] = value
            for slot, piece in zip(block.starts, some, strict=True):
                row[slot : slot + len(piece)] = piece
            continue
        if some:
            torch.cat([*some], out=row[:frames])
        if frames < block.t_max:
            row[frames:] = value
    return padded_BT


def _check_alike(samples: Sequence[BlockSample]) -> None:
    likes = {id(sample.like): sample.like for sample in samples}
    if len(likes) > 1 and len({(kind(of), kind(to)) for of, to in likes.values()}) > 1:
        kinds = " and ".join(sorted({f"{kind(of)}, {kind(to)}" for of, to in likes.values()}))
        raise InputError(
            f"inputs and targets of one batch differ: {kinds}; read has to return all of one kind"
        )


def _tensors(like: Any) -> Any:
    """Return the part of a tree that is tensors, None if there is none."""
    if isinstance(like, dict):
        return {key: part for key, part in like.items() if isinstance(part, Tensor)} or None
    return like if isinstance(like, Tensor) else None


def _objects(pieces: Sequence[Any], like: Any) -> Any:
    """Return the targets per frame that are no tensors, segment after segment, as tuples."""
    if isinstance(like, dict):
        lists = [key for key, part in like.items() if isinstance(part, list)]
        parts = {key: _objects([piece[key] for piece in pieces], like[key]) for key in lists}
        return parts or ()
    return tuple(chain.from_iterable(pieces)) if isinstance(like, list) else ()


def _frozen(tree: Any) -> Any:
    """Return the tree with tuples instead of lists."""
    if isinstance(tree, dict):
        return {key: _frozen(part) for key, part in tree.items()}
    return tuple(tree) if isinstance(tree, list) else tree


def _check_pad(pad: Mapping[str, float], like: tuple[Any, Any]) -> None:
    """Raise InputError for pad values that are not numbers, or whose keys do not exist."""
    keys: list[str] = []
    for name, tree in zip(("frames", "targets"), like, strict=True):
        tree = _tensors(tree)
        keys += tree if isinstance(tree, dict) else [name] * (tree is not None)
    for key, value in pad.items():
        if key not in keys:
            raise InputError(f"pad has the key {key!r}; there are {', '.join(keys)}")
        if not isinstance(value, Number):
            raise InputError(f"pad[{key!r}] is {value!r}; it has to be a number")
