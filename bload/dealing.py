"""Dealing a plan's blocks to ranks: equal steps by construction, for any number of ranks.

Step s of an epoch trains the blocks ``s * G`` to ``(s + 1) * G - 1`` of the plan, where G is
ranks x blocks per rank. They are dealt to the ranks like cards, so the step depends on G alone: 2
ranks of 4 blocks and 8 ranks of 1 block train the same steps.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bload.errors import InputError, check_choice, spell
from bload.plan import Plan

Last = Literal["fill", "drop"]


def deal(blocks: int, ranks: int, blocks_per_rank: int, step: int, rank: int) -> np.ndarray:
    """Return the blocks of one rank in one step, ``(blocks_per_rank,)``; -1 means a filler.

    Args:
        blocks: blocks of the plan.
        ranks: number of ranks.
        blocks_per_rank: blocks that a rank trains per step.
        step: number of the step in the epoch, from 0.
        rank: number of the rank, from 0.
    """
    position = step * ranks * blocks_per_rank + np.arange(blocks_per_rank) * ranks + rank
    return np.where(position < blocks, position, -1)


def blocks_per_rank(batch_frames: int, t_max: int) -> int:
    """Return the whole blocks in `batch_frames` slots; raise InputError if there are none."""
    if not hasattr(batch_frames, "__index__"):
        raise InputError(f"batch_frames is {batch_frames!r}; give a whole number")
    if batch_frames < t_max:
        raise InputError(
            f"batch_frames is {batch_frames} but one block has t_max = {t_max} frames; "
            f"raise {spell('batch_frames')} to {t_max} or lower {spell('t_max')}"
        )
    return batch_frames // t_max


@dataclass(frozen=True, slots=True)
class EpochAccount:
    """Cost of an epoch once its plan is dealt, all ranks together."""

    steps: int
    """Steps of every rank."""
    blocks: int
    """Blocks of the plan that are trained."""
    padding: int
    """Empty slots of those blocks."""
    filler: int
    """Slots of the empty blocks added so that every rank takes every step."""
    deleted: int
    """Frames of the data set that are not trained: left out by the packer or in dropped blocks."""
    frames: int
    """Frames that are trained."""
    processed: int
    """Slots that the model processes: frames + padding + filler."""


def account(plan: Plan, blocks_per_step: int, last: Last = "fill") -> EpochAccount:
    """Count what an epoch trains, pads and deletes.

    Args:
        plan: the plan of the epoch.
        blocks_per_step: ranks x blocks per rank.
        last: how to treat a last step that the plan does not fill: ``fill`` adds empty blocks,
            ``drop`` leaves its blocks out, counted as deleted. No sequence is ever repeated.

    Raises:
        InputError: `last` is neither, or dropping would leave no step at all.
    """
    check_choice(spell("last"), last, ("fill", "drop"))
    if last == "drop":
        steps = plan.blocks // blocks_per_step
        if steps == 0:
            raise InputError(
                f"the plan has {plan.blocks} blocks but one step of all ranks takes "
                f"{blocks_per_step}; lower {spell('batch_frames')} or set {spell('last', 'fill')}"
            )
        blocks = steps * blocks_per_step
    else:
        steps = -(-plan.blocks // blocks_per_step)
        blocks = plan.blocks
    frames = int(plan.block_frames[:blocks].sum())
    processed = steps * blocks_per_step * plan.t_max
    return EpochAccount(
        steps=steps,
        blocks=blocks,
        padding=blocks * plan.t_max - frames,
        filler=processed - blocks * plan.t_max,
        deleted=plan.frames - frames,
        frames=frames,
        processed=processed,
    )
