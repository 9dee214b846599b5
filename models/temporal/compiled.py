"""A walk over segments as one node of a compiled graph.

How many rows a step has changes from batch to batch, and a graph that saw it would be compiled anew
for each. So the order is found inside an operator that the compiler does not look into; all that
goes in and comes out has one shape.

G parts, B blocks, T slots, V = B * T, N queries, D width, X numbers of an input.
"""

from typing import Any

import torch
from torch import Tensor

from bload.state import first_state
from models.temporal.operator import OPERATORS
from models.temporal.timeline import Timeline


class _Context:
    """Stands in for the context of an `autograd.Function`, outside of autograd."""

    def __init__(self, **values: Any) -> None:
        self.saved_tensors: tuple[Tensor, ...] = ()
        self.__dict__.update(values)

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors


@torch.library.custom_op("bload::memories", mutates_args=())
def memories(
    name: str,
    options: list[int] | None,
    start_BT: Tensor,
    inputs_GBTNX: Tensor,
    initial_GND: Tensor,
    state_GBND: Tensor | None,
    weights: list[Tensor],
) -> list[Tensor]:
    """Memories ``(G, B, T, N, D)``, and what the backward pass needs.

    Args:
        name: in `models.temporal.operator.OPERATORS`, `options` what that takes after ``rows_T``.
        start_BT: on the host.
        initial_GND: before a video's first slot.
        state_GBND: before the batch; None if every row begins anew.
        weights: of all parts.
    """
    timeline = Timeline.of(start_BT, len(initial_GND)).to(inputs_GBTNX.device)
    order, nothing = timeline.order, [None] * len(initial_GND)
    segments = len(order.block_S)
    pairs = zip(initial_GND, nothing if state_GBND is None else state_GBND, strict=True)
    first = [first_state(order, one.expand(segments, -1, -1), before) for one, before in pairs]
    inputs_W = timeline.packed(inputs_GBTNX.unbind())
    walk = order.rows_T, timeline.place_W, inputs_W, torch.stack(first)
    memory_W, *kept = _forward(name, options, *walk, weights)
    return [timeline.unpacked(memory_W), *kept]


def _forward(
    name: str,
    options: list[int] | None,
    rows_T: tuple[int, ...],
    place_W: Tensor,
    inputs_W: Tensor,
    first_GSND: Tensor,
    weights: list[Tensor],
) -> list[Tensor]:
    context = _Context()
    walk = OPERATORS[name]
    memory_W = walk.forward(
        context, rows_T, *(options or ()), place_W, inputs_W, first_GSND, *weights
    )
    kept = context.saved_tensors[1:]  # without `place_W`
    # No output of an operator may be one of its inputs.
    given = (any(one is weight for weight in weights) for one in kept)
    apart = (one.clone() if yes else one for one, yes in zip(kept, given, strict=True))
    return [memory_W, *(one.contiguous() for one in apart)]


@memories.register_fake
def _(
    name: str,
    options: list[int] | None,
    start_BT: Tensor,
    inputs_GBTNX: Tensor,
    initial_GND: Tensor,
    state_GBND: Tensor | None,
    weights: list[Tensor],
) -> list[Tensor]:
    # A trial with two slots: all but weights has as many rows as there are slots. The trial does
    # not see their real number, which may be a symbol.
    parts, queries, width = initial_GND.shape
    inputs_W = inputs_GBTNX.new_empty(2 * parts, queries, inputs_GBTNX.shape[-1])
    place_W = inputs_W.new_empty(2 * parts, dtype=torch.int64)
    first_GSND = initial_GND.new_empty(parts, 2, queries, width)
    _, *kept = _forward(name, options, (2,), place_W, inputs_W, first_GSND, weights)
    rows = inputs_GBTNX.shape[0] * inputs_GBTNX.shape[1] * inputs_GBTNX.shape[2]
    return [
        inputs_GBTNX.new_empty(*inputs_GBTNX.shape[:4], width),
        *(one.new_empty(rows if len(one) == 2 * parts else parts, *one.shape[1:]) for one in kept),
    ]


@torch.library.custom_op("bload::memories_backward", mutates_args=())
def memories_backward(
    name: str,
    start_BT: Tensor,
    goes_on: bool,
    channels: int,
    grad_GBTND: Tensor,
    kept: list[Tensor],
    weights: list[Tensor],
) -> list[Tensor]:
    """Gradients of inputs, initial states and weights of `memories`."""
    timeline = Timeline.of(start_BT, len(grad_GBTND)).to(grad_GBTND.device)
    order = timeline.order
    context = _Context(rows_T=order.rows_T, parts=len(grad_GBTND))
    context.save_for_backward(timeline.place_W, *kept)
    with torch.no_grad():
        grads = OPERATORS[name].backward(context, timeline.packed(grad_GBTND.unbind()))
        inputs_W, first_GSND, *rest = grads[-2 - len(weights) :]
        if goes_on:
            first_GSND = first_GSND[:, order.starts_S]
        return [timeline.unpacked(inputs_W), first_GSND.sum(1), *rest]


@memories_backward.register_fake
def _(
    name: str,
    start_BT: Tensor,
    goes_on: bool,
    channels: int,
    grad_GBTND: Tensor,
    kept: list[Tensor],
    weights: list[Tensor],
) -> list[Tensor]:
    parts, *_, queries, width = grad_GBTND.shape
    return [
        grad_GBTND.new_empty(*grad_GBTND.shape[:4], channels),
        grad_GBTND.new_empty(parts, queries, width),
        *(torch.empty_like(weight) for weight in weights),
    ]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.name, _, start_BT, inputs_GBTNX, _, state_GBND, weights = inputs
    ctx.goes_on, ctx.channels, ctx.weights = (
        state_GBND is not None,
        inputs_GBTNX.shape[-1],
        len(weights),
    )
    ctx.save_for_backward(start_BT, *weights, *output[1:])


def _backward(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    start_BT, *saved = ctx.saved_tensors
    weights, kept = saved[: ctx.weights], saved[ctx.weights :]
    inputs, initial, *rest = memories_backward(
        ctx.name, start_BT, ctx.goes_on, ctx.channels, grads[0], kept, weights
    )
    return None, None, None, inputs, initial, None, rest


memories.register_autograd(_backward, setup_context=_keep)
