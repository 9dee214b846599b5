"""Recurrent state over a block: walked frame by frame, cleared where a segment starts.

Shapes: B blocks, T slots; ``...`` whatever the part works on (queries, width).
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

State = Tensor | tuple | list | dict


class RecurrentPart(Protocol):
    """What `walk` needs of a recurrent module."""

    def init_state(self, inputs: Tensor) -> State:
        """The state before the first frame of a segment, for inputs of one slot ``(B, ...)``."""
        ...

    def step(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """One slot: inputs ``(B, ...)`` and the state before it -> outputs and the state after."""
        ...


def reset_state(state: State, initial: State, start_B: Tensor) -> State:
    """Replace the rows of `state` where `start_B` is True by those of `initial`.

    Works on any nest of tensors with leading dimension B. It is one ``torch.where`` a tensor:
    nothing waits for the device, and no gradient passes from one segment to the next.
    """

    def clear(old: Tensor, new: Tensor) -> Tensor:
        start = start_B.view(-1, *(1,) * (old.dim() - 1))
        return torch.where(start, new, old)

    return pytree.tree_map(clear, state, initial)


def walk(
    part: RecurrentPart, inputs_BT: Tensor, start_BT: Tensor, state: State | None = None
) -> tuple[Tensor, State]:
    """Run `part` through the slots of a block, clearing its state at every start.

    Args:
        part: the recurrent module.
        inputs_BT: inputs ``(B, T, ...)``.
        start_BT: bool ``(B, T)``, True on the first frame of each segment.
        state: what an earlier call returned, to go on in mid-segment; None begins anew.

    Returns:
        outputs ``(B, T, ...)`` and the state after the last slot.
    """
    # unbind, not [:, t]: its backward is one stack, where T selects would each fill a whole block.
    inputs_T = inputs_BT.unbind(1)
    initial = part.init_state(inputs_T[0])
    if state is None:
        state = initial
    outputs_T = []
    for inputs, start_B in zip(inputs_T, start_BT.unbind(1), strict=True):
        state = reset_state(state, initial, start_B)
        outputs, state = part.step(inputs, state)
        outputs_T.append(outputs)
    return torch.stack(outputs_T, dim=1), state
