"""Batch of blocks of frames, with masks of the valid slots and of the starts.

B blocks, T slots, S segments, F valid frames.
"""

import pickle
from cmath import isfinite
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bload.batch.boundaries import Boundaries, Segments
from bload.batch.sending import collect_objects, empty_tensor, pickle_inline
from bload.batch.step import Step, require_step
from bload.batch.trees import describe, map_tensors
from bload.errors import InputError, check_choice, plural
from bload.packing.plan import Block, round_up

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
    template: tuple[Any, Any]
    """Inputs and targets without frames, which give fillers the usual shapes and dtypes."""
    targets_per: TargetsPer = "frame"


@dataclass(slots=True, eq=False)
class Batch(Boundaries):
    """Input of a training step: frames, targets, and boundaries of sequences.

    ``valid_BT`` is False on padding: exclude it from losses, matching, batch statistics and
    metrics. A filler, usually at the end of an epoch, is all padding, with the usual shapes and
    dtypes and no target. Use `bload.mean_loss` for it; a plain mean is wrong.

    Attributes:
        valid_BT: bool, True on a frame, False on padding.
        start_BT: bool, True on the first frame of each segment, where the state is cleared.
        segments: ``block_S``, ``slot_S``, ``length_S``, ``sequence_S``, ``first_S`` of each, int64.
        inputs_BT: tensor ``(B, T, ...)`` in the source's dtype (images stay uint8 until the
            device), or a dict of these. Padding is 0 or the loader's pad value.
        continues_B: bool, True only with ``long="carry"``: the row continues with its state at the
            end of the batch a step before, and its first slot is no start.
        targets_BT: targets per frame that are tensors, in the same form, else None. Padding is -100
            for integers, else 0. Without a pad value, uint8 to uint32 become int64 to hold -100.
        targets: targets per frame that are not tensors: a tuple with one per valid frame, the i-th
            for the i-th True of ``valid_BT``, row by row; a dict of these if the source's are one.
        targets_S: one target per segment: a tensor ``(S, ...)`` for numbers or equally shaped
            tensors, a dict of these, or a tuple of objects. None for targets per frame.
        step: optimiser step of the batch, read by the names below; None if it is from no loader.
    """

    inputs_BT: Any
    continues_B: Tensor
    targets_BT: Any = None
    targets: Any = ()
    targets_S: Any = None
    step: Step | None = None

    @property
    def frames_in_step(self) -> int:
        """Frames of all batches of the optimiser step, over all ranks."""
        return require_step(self.step).frames

    @property
    def ends_step(self) -> bool:
        """False if more batches follow before the optimiser step."""
        return require_step(self.step).ends

    def __repr__(self) -> str:
        blocks, slots = self.valid_BT.shape
        return f"Batch({blocks} x {slots} slots, {plural(len(self.segments), 'segment')})"

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
        ``position_ids``, ``(1, F)``. The models shift labels themselves: they are the unshifted
        targets, or else the tokens, and -100 at starts. A filler has one token without a label.

        Args:
            rows: keep blocks as rows, ``(B, T)``. Attention that computes what it masks then costs
                B x T x T instead of F x F. Kernels that take `flash_attn` need one row.
            first_position: position at a start; RoBERTa and similar models use ``padding_idx + 1``.
            flash_attn: add ``cu_seq_lens_q`` and similar keys, for a flash ``attn_implementation``.
            seq_idx: add ``seq_idx``, for layers whose kernels take it, see docs/models.md.
        """
        for name, flag in {"rows": rows, "flash_attn": flash_attn, "seq_idx": seq_idx}.items():
            check_choice(name, flag, (True, False))
        used_BT = self.valid_BT
        if not len(self.segments):
            used_BT = used_BT.clone()
            used_BT[0, 0] = True
        for name, values in (("inputs_BT", self.inputs_BT), ("targets_BT", self.targets_BT)):
            if isinstance(values, dict) or (values is not None and values.is_floating_point()):
                raise InputError(
                    f"{name} is {describe(values)}; transformers() takes one tensor of tokens and "
                    'one of labels, both whole numbers: from_dataset(..., inputs="input_ids")'
                )
        if self.targets or self.targets_S is not None:
            raise InputError("transformers() takes labels per token, as a tensor, or none")
        labels_BT = self.inputs_BT if self.targets_BT is None else self.targets_BT
        position_BT = self.segment_position_BT
        labels_BT = labels_BT.long().masked_fill(position_BT == 0, -100)
        row = {
            "input_ids": self.inputs_BT.long(),
            "labels": labels_BT,
            "position_ids": position_BT + first_position,
        }
        if seq_idx:
            row["seq_idx"] = self.batch_segment_BT.to(torch.int32)
        if rows and flash_attn:
            raise InputError("flash_attn needs one row of all texts; leave rows out")
        if rows:
            return row
        inputs: dict[str, Any] = {key: values_BT[used_BT][None] for key, values_BT in row.items()}
        if flash_attn:
            bounds = self.cu_seqlens if len(self.segments) else self.cu_seqlens.new_tensor([0, 1])
            inputs |= {f"cu_seq_lens_{end}": bounds for end in "qk"}
            inputs |= {f"max_length_{end}": max(self.max_seqlen, 1) for end in "qk"}
        return inputs

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on `device`; other targets do not change."""
        device = torch.device(device)  # a dtype is an error
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Return the batch in page-locked memory, for a DataLoader with ``pin_memory=True``."""
        return self._map(Tensor.pin_memory)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send frames by shared memory; the rest goes inside the message, since it is small."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        large = {name: values.pop(name) for name in ("inputs_BT", "targets_BT")}
        return _unpickled, (large, pickle_inline(values))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        kept = ("segments", "targets", "step")
        names = [field.name for field in fields(self) if field.name not in kept]
        changed = {name: map_tensors(getattr(self, name), change) for name in names}
        table = self.segments
        columns = table.block_S, table.slot_S, table.length_S, table.sequence_S, table.first_S
        segments = Segments(*map(change, columns), longest=table.longest)
        return replace(self, segments=segments, **changed)


def _unpickled(large: dict[str, Any], pickled: bytes) -> Batch:
    return Batch(**large, **pickle.loads(pickled))


def check_batch(batch: Any) -> None:
    """Raise `InputError` for anything but a `Batch`, such as a loader."""
    if not isinstance(batch, Batch):
        kind = type(batch).__name__
        raise InputError(f"a {kind} in place of a Batch; give one of those that a loader yields")


def collate_blocks(samples: Sequence[BlockSample], pad: Mapping[str, float] = {}) -> Batch:
    """Collate blocks of equal ``t_max`` into a `Batch`, in the order given.

    Args:
        samples: blocks with values of one kind, as from one `BlockDataset`.
        pad: padding values by key of inputs or targets, ``inputs`` and ``targets`` if not a dict.

    Raises:
        InputError: a pad value does not fit the dtype of its tensor, or has an unknown key.
    """
    inputs_template, targets_template = samples[0].template
    per_frame = samples[0].targets_per == "frame"
    keys: list[str] = []
    for name, template in (("inputs", inputs_template), ("targets", targets_template)):
        parts = template if isinstance(template, dict) else {name: template}
        keys += [key for key, part in parts.items() if isinstance(part, Tensor)]
    for key in pad:
        if key not in keys:
            raise InputError(f"pad has the key {key!r}; its keys may be {', '.join(keys)}")
    blocks = [sample.block for sample in samples]
    t_max = blocks[0].t_max
    block_S = np.arange(len(blocks)).repeat([len(block.length) for block in blocks])
    length_S, sequence_S, first_S = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("length", "sequence", "first")
    )
    slots_S = round_up(length_S, blocks[0].multiple_of)
    used_B = np.bincount(block_S, slots_S, len(blocks)).astype(np.int64)
    slot_S = slots_S.cumsum() - slots_S - (used_B.cumsum() - used_B)[block_S]
    begin_S = block_S * t_max + slot_S
    bounds = np.stack([begin_S, begin_S + length_S], axis=1).ravel()
    runs = np.diff(bounds, prepend=0, append=len(blocks) * t_max)  # padding, segment, padding, ...
    valid_BT = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(-1, t_max)
    start_BT = np.zeros_like(valid_BT)
    start_BT[block_S, slot_S] = True
    continues = [block.continues for block in blocks]
    start_BT[continues, 0] = False
    gaps = runs[::2].tolist()

    def in_rows(pieces: Sequence[Any], template: Tensor, name: str, whole: float) -> Tensor:
        """Put the tensors of the segments into rows, ``(B, T, ...)``."""
        value, dtype = _padding(template.dtype, name, whole, pad.get(name))
        padded_BT = empty_tensor((len(blocks), t_max, *template.shape[1:]), dtype)
        if dtype != template.dtype:
            pieces = [piece.to(dtype) for piece in pieces]
        padding = torch.full((max(gaps), *template.shape[1:]), value, dtype=dtype, device="cpu")
        parts = [padding[: gaps[0]]] if gaps[0] else []
        for piece, gap in zip(pieces, gaps[1:], strict=True):
            parts.append(piece)
            if gap:
                parts.append(padding[:gap])
        torch.cat(parts, out=padded_BT.flatten(0, 1))
        return padded_BT

    def by_segment(pieces: Sequence[Any], template: Any, _: str) -> Any:
        is_tensor = isinstance(template, Tensor)
        return torch.cat([template, *pieces]) if is_tensor else collect_objects(pieces, sequence_S)

    inputs = [*chain.from_iterable(sample.inputs for sample in samples)]
    targets = [*chain.from_iterable(sample.targets for sample in samples)]
    of_targets = partial(_by_key, targets, targets_template, "targets")
    return Batch(
        inputs_BT=_by_key(inputs, inputs_template, "inputs", partial(in_rows, whole=0), Tensor),
        targets_BT=of_targets(partial(in_rows, whole=-100), Tensor) if per_frame else None,
        targets=(of_targets(by_segment, list) if per_frame else None) or (),
        targets_S=None if per_frame else of_targets(by_segment, (Tensor, list, dict)),
        valid_BT=torch.from_numpy(valid_BT),
        start_BT=torch.from_numpy(start_BT),
        segments=Segments(
            *map(torch.from_numpy, (block_S, slot_S, length_S, sequence_S, first_S)),
            longest=int(length_S.max(initial=0)),
        ),
        step=getattr(samples, "step", None),
        continues_B=torch.tensor(continues, device="cpu"),
    )


@lru_cache
def _padding(
    dtype: torch.dtype, name: str, whole: float, value: float | None
) -> tuple[float, torch.dtype]:
    """Return the padding, by default `whole` for integers, else 0, and a dtype that holds it."""
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    padding = (whole if is_whole and dtype != torch.bool else 0) if value is None else value
    stored = torch.tensor(padding, device="cpu").to(dtype).item()
    if (stored == padding) if is_whole else (isfinite(stored) or not isfinite(padding)):
        return padding, dtype
    if value is not None or dtype == torch.uint64:
        raise InputError(
            f"pad[{name!r}] is {padding}, which {dtype} cannot hold; give another, or int64 values"
        )
    return padding, torch.int64  # room for -100, so that padding is not a class


def _by_key(
    pieces: Sequence[Any], template: Any, name: str, join: Callable[..., Any], kind: Any
) -> Any:
    """Join the values of the segments that are of a kind, key by key; None if there are none."""
    if isinstance(template, dict):
        return {
            key: _by_key([piece[key] for piece in pieces], part, key, join, kind)
            for key, part in template.items()
            if isinstance(part, kind)
        } or None
    return join(pieces, template, name) if isinstance(template, kind) else None


def copy_pad(pad: Mapping[str, float] | None) -> dict[str, float]:
    """Return the padding values by key; raise InputError unless they are a dict."""
    is_dict = isinstance(pad, Mapping | None)
    if not is_dict or any(isinstance(value, str) for value in (pad or {}).values()):
        raise InputError(f'pad is {pad!r}; give a dict of numbers by key, such as {{"inputs": 0}}')
    return dict(pad or {})
