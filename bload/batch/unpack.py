"""Outputs of a model taken out of blocks again: one tensor per run of frames of a sequence."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from bload.batch.batch import Batch
from bload.errors import InputError


class Output(NamedTuple):
    """Values of the frames ``first`` to ``first + len(values)`` of a sequence."""

    sequence: int
    """Number in the data set."""
    first: int
    """Frame of the sequence to which the first value belongs."""
    values: Tensor
    """``(frames, ...)``"""


def unpack(
    outputs_BT: Tensor,
    batch: Batch,
    gather: bool = False,
    process_group: dist.ProcessGroup | None = None,
) -> list[Output]:
    """Return the outputs ``(B, T, ...)`` by sequence, in order of its number and first frame.

    A whole sequence is one output with ``first`` 0; one that was cut has several. Padding is left
    out.

    Args:
        outputs_BT: outputs of the model, a value or more for each slot.
        batch: the batch that they were computed from.
        gather: the outputs of all ranks, on every rank, on the CPU; all ranks have to call.
        process_group: as given to the loader; None takes the default group.

    Raises:
        InputError: the outputs are no tensor ``(B, T, ...)``.
    """
    shape = getattr(outputs_BT, "shape", ())[:2]
    if shape != batch.valid_BT.shape:
        raise InputError(
            f"outputs begin with the shape {tuple(shape)}, the batch with "
            f"{tuple(batch.valid_BT.shape)}; unpack takes one tensor (B, T, ...)"
        )
    pieces = torch.split(outputs_BT[batch.valid_BT], batch.segments.length_S.tolist())
    begin = (batch.segments.block_S, batch.segments.slot_S)
    numbers = batch.sequence_BT[begin].tolist(), batch.position_BT[begin].tolist()
    outputs = [Output(*each) for each in zip(*numbers, pieces, strict=True)]
    if gather and dist.is_available() and dist.is_initialized():
        lists: list[Any] = [None] * dist.get_world_size(process_group)
        on_cpu = [output._replace(values=output.values.detach().cpu()) for output in outputs]
        dist.all_gather_object(lists, on_cpu, process_group)
        outputs = [output for some in lists for output in some]
    return sorted(outputs, key=lambda output: output[:2])
