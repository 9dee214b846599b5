"""Outputs of a model taken out of blocks again: one tensor per run of frames of a sequence."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.batch import Batch, TargetsPer
from bload.errors import InputError


class Output(NamedTuple):
    """Values of frames ``first`` to ``first + len(values)`` of a sequence, or one for them all."""

    sequence: int
    """Number in the data set."""
    first: int
    """Frame of the sequence to which the first value belongs."""
    values: Tensor
    """``(frames, ...)``; without the first dimension where there is one per segment."""


def unpack(
    outputs: Tensor,
    batch: Batch,
    gather: bool = False,
    process_group: dist.ProcessGroup | None = None,
    *,
    per: TargetsPer = "frame",
) -> list[Output]:
    """Return the outputs by sequence, in order of its number and first frame.

    A whole sequence is one output with ``first`` 0; one that was cut has several. Padding is left
    out.

    Args:
        outputs: of the model, ``(B, T, ...)``, or per sequence ``(S, ...)`` as `Batch.last` gives.
        batch: the batch that they were computed from.
        gather: the outputs of all ranks, on every rank, on the CPU; all ranks have to call.
        process_group: as given to the loader; None takes the default group.
        per: ``frame``, or ``sequence`` if there is one output for each segment.

    Raises:
        InputError: the outputs are no tensor of that shape.
    """
    segments, wanted = batch.segments, tuple(batch.valid_BT.shape)
    if per == "sequence":
        wanted = (len(segments),)
    shape = tuple(getattr(outputs, "shape", ())[: len(wanted)])
    if shape != wanted:
        raise InputError(
            f"outputs begin with the shape {shape}, the batch with {wanted}; unpack takes one "
            'tensor (B, T, ...), or (S, ...) with per="sequence"'
        )
    if per == "frame":
        pieces = torch.split(outputs[batch.valid_BT], segments.length_S.tolist())
    else:
        pieces = outputs.unbind()
    numbers = segments.sequence_S.tolist(), segments.first_S.tolist()
    found = [Output(*each) for each in zip(*numbers, pieces, strict=True)]
    if gather and dist.is_available() and dist.is_initialized():
        lists: list[Any] = [None] * dist.get_world_size(process_group)
        on_cpu = [output._replace(values=output.values.detach().cpu()) for output in found]
        dist.all_gather_object(lists, on_cpu, process_group)
        found = [output for some in lists for output in some]
    return sorted(found, key=lambda output: output[:2])
