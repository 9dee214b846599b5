"""Model outputs by sequence instead of by block."""

from itertools import chain
from typing import Any, NamedTuple, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.batch import Batch, TargetsPer, check_batch
from bload.batch.step import check_group, has_group
from bload.errors import InputError, check_choice


class Output(NamedTuple):
    """Outputs of a sequence from frame ``first`` on, or one output for all these frames."""

    sequence: int
    """Number of the sequence in the data set."""
    first: int
    """Frame of the sequence to which the first value belongs."""
    values: Tensor
    """``(frames, ...)``; ``(...)`` if there is one output per segment."""


def unpack(
    outputs: Tensor,
    batch: Batch,
    gather: bool = False,
    process_group: dist.ProcessGroup | None = None,
    *,
    per: TargetsPer = "frame",
) -> list[Output]:
    """Return the outputs by sequence, sorted by its number and first frame.

    A whole sequence is one output with ``first`` 0, a cut one has several. Padding is left out. The
    order is not that of ``targets_S``, which is the order of ``batch.segments``:
    ``outputs[batch.valid_BT].split(batch.segments.length_S.tolist())`` is in that one.

    Args:
        outputs: those of the model, ``(B, T, ...)``, or ``(S, ...)`` as from `Batch.last`.
        gather: return the outputs of all ranks, on every rank, on the CPU; all ranks must call.
        process_group: group of the loader; None takes the default group.
        per: ``frame``, or ``sequence`` for one output per segment.

    Raises:
        InputError: the outputs have another shape, the group is not the loader's, or `gather` is
            given under ``balance="uneven"``.
    """
    check_choice("per", per, get_args(TargetsPer))
    check_choice("gather", gather, (True, False))
    check_batch(batch)
    segments = batch.segments
    expected = tuple(batch.valid_BT.shape) if per == "frame" else (len(segments),)
    shape = tuple(getattr(outputs, "shape", ())[: len(expected)])
    if shape != expected:
        raise InputError(
            f"outputs begin with the shape {shape}, the batch with {expected}; unpack takes one "
            'tensor (B, T, ...), or (S, ...) with per="sequence"'
        )
    if per == "frame":
        pieces = torch.split(outputs[batch.valid_BT], segments.length_S.tolist())
    else:
        pieces = outputs.unbind()
    numbers = segments.sequence_S.tolist(), segments.first_S.tolist()
    unpacked = [Output(*columns) for columns in zip(*numbers, pieces, strict=True)]
    if gather and batch.step:
        check_group(batch.step, process_group)
    if gather and has_group():
        lists: list[Any] = [None] * dist.get_world_size(process_group)
        # copies, since a view would be sent with all that it is a view of
        own = [o._replace(values=o.values.detach().to("cpu", copy=True)) for o in unpacked]
        dist.all_gather_object(lists, own, process_group)
        unpacked = [*chain.from_iterable(lists)]
    return sorted(unpacked, key=lambda output: output[:2])
