"""The optimiser step that a batch belongs to, and how it travels from the sampler to the batch.

BlockSampler -> StepList of blocks -> BlockDataset -> StepList of samples -> Batch.step
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch.distributed as dist

from bload.errors import InputError


class Step(NamedTuple):
    """Optimiser step that a batch belongs to."""

    epoch: int
    """Number of the epoch, from 0."""
    frames: int
    """Frames of the step, over all ranks."""
    batches: int = 1
    """Batches of this rank in the step."""
    ends: bool = True
    """True for the last of these batches."""
    world_size: int = 1
    """Ranks that take the step together."""
    even: bool = True
    """True if all ranks have as many batches in the step."""


class StepList(list[Any]):
    """The blocks, or samples, of one batch, with their step.

    torch's DataLoader passes what a batch sampler yields to ``__getitems__`` of the data set, and
    what that returns to the collate function; so the list may carry more than its entries.
    """

    pass_and_number = 0, 0
    """Pass of a sampler, numbered over all samplers, and number in the pass."""

    def __init__(self, entries: Iterable[Any], step: Step) -> None:
        super().__init__(entries)
        self.step = step


def has_group() -> bool:
    """Return True if this process is in a process group."""
    return dist.is_available() and dist.is_initialized()


def check_group(step: Step, process_group: dist.ProcessGroup | None) -> None:
    """Raise InputError unless all ranks of the step are in the group, with equally many batches."""
    if not step.even and step.world_size > 1:
        raise InputError(
            "with balance=uneven, ranks have unequal numbers of batches, so a collective operation "
            "for each batch would hang; choose another balance, or pass no count or gather"
        )
    ranks = dist.get_world_size(process_group) if has_group() else 1
    if ranks != step.world_size:
        raise InputError(
            f"the step of the batch has {step.world_size} ranks, the process group {ranks}; pass "
            "the process_group of the loader"
        )


def require_step(step: Step | None) -> Step:
    """Return the step, or raise `InputError` if it was lost on the way to the batch."""
    if step is None:
        raise InputError(
            "the batch does not know its step, because it comes from no loader, or from a data set "
            "that was given its blocks one by one; use BlockLoader or StreamLoader, or define "
            "__getitems__(blocks) in the data set and pass the list on to BlockDataset"
        )
    return step
