"""Recurrent state over a block: walked frame by frame, cleared where a segment starts.

B blocks, T slots; ``...`` is whatever the part works on (queries, width).
"""

from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

State = TypeVar("State")
"""A tensor, or tuples, lists or dicts of them, each with leading dimension B."""


class RecurrentPart(Protocol[State]):
    """Interface that `walk` needs of a recurrent module.

    Its state is a tensor, or tuples, lists or dicts of them, each with leading dimension B.
    """

    def init_state(self, inputs: Tensor) -> State:
        """Return the state before a segment's first frame, for inputs of one slot ``(B, ...)``."""

    def step(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one slot: inputs ``(B, ...)`` and state -> outputs ``(B, ...)`` and new state."""


def reset_state(state: State, initial: State, start_B: Tensor) -> State:
    """Replace the rows of `state` where `start_B` (bool, ``(B,)``) is True by those of `initial`.

    It is one ``torch.where`` per tensor: nothing waits for the device, and no gradient passes from
    one segment to the next.

    Args:
        state: a nest of tensors ``(B, ...)``: a tensor, or tuples, lists or dicts of them.
        initial: the state before a segment's first frame, of the same nest.
        start_B: one slot of ``start_BT``.
    """

    def clear(old: Tensor, new: Tensor) -> Tensor:
        start = start_B.view(-1, *(1,) * (old.dim() - 1))
        return torch.where(start, new, old)

    cleared: State = pytree.tree_map(clear, state, initial)
    return cleared


def walk(
    part: RecurrentPart[State], inputs_BT: Tensor, start_BT: Tensor, state: State | None = None
) -> tuple[Tensor, State]:
    """Run `part` through the slots of a block, clearing its state at every start.

    Args:
        part: the recurrent module.
        inputs_BT: inputs ``(B, T, ...)``.
        start_BT: bool ``(B, T)``, True on the first frame of each segment.
        state: returned by an earlier call, to continue inside a segment; None starts afresh.

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
