"""Walk of a recurrent module over blocks, frame by frame; a clear state where a segment starts.

B blocks, T slots, S segments; ``...`` are any further dimensions (queries, width).
"""

from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bload.batch.walk_order import WalkOrder
from bload.errors import InputError, check_choice

State = TypeVar("State")
"""A tensor, or a tuple, list or dict of tensors, each with leading dimension B."""


class RecurrentPart(Protocol[State]):
    """Interface of a recurrent module for `walk`.

    Its state is a tensor, or a tuple, list or dict of tensors, each with leading dimension B. These
    rows are blocks or segments, see `walk`. No row may depend on another.
    """

    def init_state(self, inputs: Tensor) -> State:
        """Return the state before a segment's first frame, for inputs of one slot ``(B, ...)``."""

    def step(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one slot: inputs ``(B, ...)`` and state -> outputs ``(B, ...)`` and new state."""


def reset_state(state: State, initial: State, start_B: Tensor) -> State:
    """Replace the rows of `state` where `start_B` (bool, ``(B,)``) is True by those of `initial`.

    By one ``torch.where`` per tensor: it never synchronises, and gradients stay in a segment.

    Args:
        state: a nest of tensors ``(B, ...)``: a tensor, or a tuple, list or dict of tensors.
        initial: state before a segment's first frame, with the same structure.
        start_B: one slot of ``start_BT``.
    """

    def clear(old: Tensor, new: Tensor) -> Tensor:
        start = start_B.view(-1, *(1,) * (old.dim() - 1))
        return torch.where(start, new, old)

    cleared: State = pytree.tree_map(clear, state, initial)
    return cleared


def walk(
    part: RecurrentPart[State],
    inputs_BT: Tensor,
    start_BT: Tensor,
    state: State | None = None,
    order: WalkOrder | Literal["segments", "slots"] = "segments",
) -> tuple[Tensor, State]:
    """Run `part` through the slots of each block, with a clear state at every start.

    Args:
        part: has ``init_state(inputs)`` and ``step(inputs, state)``, see `bload.RecurrentPart`.
        inputs_BT: inputs ``(B, T, ...)``.
        start_BT: bool ``(B, T)``, True on the first frame of each segment.
        state: state from an earlier call, to continue inside a segment; None starts anew.
        order: ``segments`` walks all segments together, in as many steps as the longest has slots.
            Rows are segments; their number falls from step to step, and nothing is cleared. It
            synchronises once with the device of the starts; pass ``WalkOrder.of(start_BT)`` to
            avoid that, for every walk over the same starts. ``slots`` takes T steps of B rows
            each, never synchronises, and clears rows by `reset_state`. Under `torch.compile` both
            words mean slots: a graph's rows per step are fixed, so every order compiles anew.

    Returns:
        outputs ``(B, T, ...)`` and the state after the last slot.

    Raises:
        InputError: `part` lacks `init_state` or `step`, shapes differ, or `order` is another word.
    """
    if not (hasattr(part, "init_state") and hasattr(part, "step")):
        raise InputError(
            f"walk takes a module with init_state and step, and {type(part).__name__} lacks them; "
            "wrap a cell in one, or give layers such as nn.GRU what batch.to_packed returns"
        )
    shape, starts = tuple(getattr(inputs_BT, "shape", ()))[:2], tuple(start_BT.shape)
    if shape != starts:
        raise InputError(f"inputs of {shape} slots, starts of {starts}; give batch.inputs_BT")
    _check_rows(part, "the given state", state, len(start_BT))
    if isinstance(order, str):
        check_choice("order", order, ("segments", "slots"))
        if order == "slots" or torch.compiler.is_compiling():
            return _by_slots(part, inputs_BT, start_BT, state)
        order = WalkOrder.of(start_BT)
    if (len(order.last_B), order.slots) != start_BT.shape:
        raise InputError(
            f"the order is of {len(order.last_B)} x {order.slots} slots and the batch has "
            f"{tuple(start_BT.shape)}; make it by WalkOrder.of(start_BT) for each batch"
        )
    return _by_segments(part, inputs_BT, order, state)


def _check_rows(part: object, name: str, values: Any, rows: int) -> None:
    """Raise `InputError` unless all values are tensors with so many rows."""
    for value in pytree.tree_leaves(values):
        if value is not None and (shape := tuple(getattr(value, "shape", ())))[:1] != (rows,):
            raise InputError(f"{name} of {type(part).__name__}: shape {shape}, not ({rows}, ...)")


def _step(part: RecurrentPart[State], inputs: Tensor, state: State) -> tuple[Tensor, State]:
    result: Any = part.step(inputs, state)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise InputError(f"step of {type(part).__name__} has to return outputs and state")
    return result[0], result[1]


def _by_segments(
    part: RecurrentPart[State], inputs_BT: Tensor, order: WalkOrder, state: State | None
) -> tuple[Tensor, State]:
    inputs_T = torch.split(order.packed(inputs_BT), list(order.rows_T))
    state_S = part.init_state(inputs_T[0])
    _check_rows(part, "init_state", state_S, len(inputs_T[0]))
    if state is not None:
        carried_S: State = pytree.tree_map(lambda values_B: values_B[order.block_S], state)
        state_S = reset_state(carried_S, state_S, order.starts_S)
    outputs_T, ends = [], []
    for step, inputs in enumerate(inputs_T):
        outputs, state_S = _step(part, inputs, state_S)
        if not step:
            _check_rows(part, "step", (outputs, state_S), len(inputs))
        outputs_T.append(outputs)
        rows = order.rows_T[step + 1] if step + 1 < len(order.rows_T) else 0
        if rows < len(inputs):
            ends.append(pytree.tree_map(lambda values, rows=rows: values[rows:], state_S))
            state_S = pytree.tree_map(lambda values, rows=rows: values[:rows], state_S)
    last: State = pytree.tree_map(lambda *parts: torch.cat(parts)[order.last_B], *reversed(ends))
    return order.unpacked(torch.cat(outputs_T)), last


def _by_slots(
    part: RecurrentPart[State], inputs_BT: Tensor, start_BT: Tensor, state: State | None
) -> tuple[Tensor, State]:
    # unbind, not [:, t]: its backward is one stack; T selects would each fill a whole block.
    inputs_T, outputs_T = inputs_BT.unbind(1), []
    current: State = part.init_state(inputs_T[0]) if state is None else state
    _check_rows(part, "init_state", current, len(start_BT))
    for inputs, start_B in zip(inputs_T, start_BT.unbind(1), strict=True):
        initial = part.init_state(inputs)  # of this slot, since it may depend on the inputs
        outputs, current = _step(part, inputs, reset_state(current, initial, start_B))
        outputs_T.append(outputs)
    _check_rows(part, "step", (outputs_T, current), len(start_BT))
    return torch.stack(outputs_T, dim=1), current
