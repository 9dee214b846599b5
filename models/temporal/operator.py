"""Whole walks over segments as one operator each, with backward passes written by hand.

What a backward pass can compute of all slots at once it does: weights get their gradients from one
product over all slots, where autograd would add up one per step. The maths are those of the
``step`` of `models.temporal.dds.Recurrence` and `models.temporal.gru.Recurrence`.

G parts with weights of their own walk together, W rows of all their slots as in
`models.temporal.timeline`, n rows of a part in one step, N queries, D width, H heads, E = D / H
channels of a head. Steps need no clearing: rows begin with `first`, and only end.

`walked` calls an operator. Without gradients its `forward` has no context and keeps nothing.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

EPS = 1e-5
"""Of the norm, as in `torch.nn.LayerNorm`."""
ONLY_INPUT = (True, False, False)
"""Gradients of a norm without weights."""


def split(values_W: Tensor, rows_T: tuple[int, ...], times: int = 1) -> tuple[Tensor, ...]:
    """Rows -> those of each step, `times` for each row of one part."""
    return torch.split(values_W, [times * rows for rows in rows_T])


def kept_together(kept: list[tuple[Tensor, ...]]) -> list[Tensor]:
    """What each step keeps, side by side for all steps."""
    return [torch.cat(column) for column in zip(*kept, strict=True)]


class DDSWalk(torch.autograd.Function):
    """Memories ``(W, N, D)`` of `models.temporal.dds`.

    Takes `rows_T`, the number of heads and `place_W` of a timeline; the inputs ``(W, N, 3 D)``; the
    first memories ``(G, S, N, D)``; and the weights of G recurrences. All but the first three are
    differentiable.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows_T: tuple[int, ...],
        heads: int,
        place_W: Tensor,
        inputs: Tensor,
        first: Tensor,
        weight: Tensor,
        bias: Tensor,
        out_weight: Tensor,
    ) -> Tensor:
        parts, _, queries, width = first.shape
        query, present, gate = inputs.chunk(3, dim=-1)
        outputs = first.new_empty(len(inputs), queries, width)
        by_row = query.unflatten(-1, (heads, -1)).transpose(1, 2), present, gate, outputs
        steps = zip(rows_T, *(split(every, rows_T, parts) for every in by_row), strict=True)
        state, row_bias, out = first, bias.repeat(1, rows_T[0], 1), out_weight.transpose(1, 2)
        kept: list[tuple[Tensor, ...]] = []
        for rows, query_, present_, gate_, output in steps:
            if rows < state.shape[1]:
                state, row_bias = state[:, :rows], row_bias[:, : rows * queries]
            state = state.reshape(-1, queries, width)
            normed, mean, scale = torch.native_layer_norm(state, (width,), None, None, EPS)
            projected = torch.baddbmm(row_bias, normed.view(parts, -1, width), weight)
            projected = projected.view(-1, queries, 3, heads, width // heads)
            key, value, memory_gate = projected.unbind(2)
            read = F.scaled_dot_product_attention(
                query_, key.transpose(1, 2), value.transpose(1, 2)
            )
            read = read.transpose(1, 2).reshape(parts, -1, width)
            update = torch.baddbmm(present_.view(parts, -1, width), read, out).view_as(state)
            open_ = torch.sigmoid(gate_ + memory_gate.flatten(2))
            if ctx is not None:
                to_gate = (update - state).mul_(open_).mul_(1 - open_)
                kept.append((state, mean, scale, projected, read.view_as(state), to_gate, open_))
            state = torch.lerp(state, update, open_, out=output).view(parts, rows, queries, width)
        if ctx is not None:
            ctx.rows_T, ctx.parts = rows_T, parts
            ctx.save_for_backward(place_W, query, weight, out_weight, *kept_together(kept))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        place_W, query, weight, out_weight, *saved = ctx.saved_tensors
        states, mean, scale, projected, read, to_gate, open_ = saved
        _, queries, _, heads, size = projected.shape
        rows_T, parts, width = ctx.rows_T, ctx.parts, heads * size

        def by_head(tokens: Tensor) -> Tensor:  # (n, N, D) -> (n H, N, E)
            return tokens.view(-1, queries, heads, size).transpose(1, 2).flatten(0, 1)

        def from_heads(tokens: Tensor) -> Tensor:  # (n H, N, E) -> (n, N, H, E)
            return tokens.view(-1, heads, queries, size).transpose(1, 2)

        def by_part(values_W: Tensor, last: int) -> Tensor:  # (W, ...) -> (G, V N, last)
            return values_W[place_W].view(parts, -1, last)

        key, value, _ = projected.unbind(2)
        query, key, value = by_head(query * size**-0.5), by_head(key), by_head(value)
        seen = torch.bmm(query, key.transpose(1, 2)).softmax(-1)
        grad = grad.clone(memory_format=torch.contiguous_format)
        grad_update, grad_score = torch.empty_like(grad), torch.empty_like(seen)
        grad_projected = torch.empty_like(projected)
        by_row = grad, to_gate, open_, grad_update, grad_projected, states, mean, scale
        by_pair = grad_score, seen, query, value.transpose(1, 2)
        steps = zip(
            rows_T,
            zip(*(split(every, rows_T, parts) for every in by_row), strict=True),
            zip(*(split(every, rows_T, parts * heads) for every in by_pair), strict=True),
            strict=True,
        )
        weight_t = weight.transpose(1, 2)
        later: Tensor | None = None
        for rows, row, (grad_score_, seen_, query_, value_) in reversed(list(steps)):
            grad_, to_gate_, open__, grad_update_, grad_projected_, state, mean_, scale_ = row
            if later is not None:
                grad_.view(parts, rows, queries, width)[:, : later.shape[1]].add_(later)
            torch.mul(grad_, open__, out=grad_update_)
            grad_read = by_head(torch.bmm(grad_update_.view(parts, -1, width), out_weight))
            torch._softmax_backward_data(
                torch.bmm(grad_read, value_), seen_, -1, seen_.dtype, grad_input=grad_score_
            )
            grad_key, grad_value, grad_gate = grad_projected_.unbind(2)
            grad_key.copy_(from_heads(torch.bmm(grad_score_.transpose(1, 2), query_)))
            grad_value.copy_(from_heads(torch.bmm(seen_.transpose(1, 2), grad_read)))
            torch.mul(grad_, to_gate_, out=grad_gate.flatten(2))
            grad_normed = torch.bmm(grad_projected_.view(parts, -1, 3 * width), weight_t)
            later = torch.ops.aten.native_layer_norm_backward(
                grad_normed.view_as(state), state, (width,), mean_, scale_, None, None, ONLY_INPUT
            )[0]
            later = later.add_(grad_).sub_(grad_update_).view(parts, rows, queries, width)
        grad_query = from_heads(torch.bmm(grad_score, key).mul_(size**-0.5)).flatten(2)
        del query, value, query_, value_, seen, seen_, steps, by_row, by_pair, row, open__
        grad_inputs = torch.cat((grad_query, grad_update, grad.mul_(to_gate)), dim=-1)
        rows_G = by_part(grad_projected, 3 * width)
        return (
            *(None, None, None, grad_inputs, later),
            by_part((states - mean) * scale, width).transpose(1, 2) @ rows_G,
            rows_G.view(parts, -1, queries, 3 * width).sum(1),
            by_part(grad_update, width).transpose(1, 2) @ by_part(read, width),
        )


class GRUWalk(torch.autograd.Function):
    """States ``(W, N, D)`` of `models.temporal.gru`.

    Takes `rows_T` and `place_W` of a timeline; the projections of the present frames
    ``(W, N, 3 D)``; the first states ``(G, S, N, D)``; and the weights of G recurrences. All but
    the first two are differentiable.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows_T: tuple[int, ...],
        place_W: Tensor,
        inputs: Tensor,
        first: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        parts, _, queries, width = first.shape
        outputs = first.new_empty(len(inputs), queries, width)
        by_row = *inputs.split((2 * width, width), dim=-1), outputs
        steps = zip(rows_T, *(split(every, rows_T, parts) for every in by_row), strict=True)
        state, weight_t, bias = first, weight.transpose(1, 2), bias[:, None]
        kept: list[tuple[Tensor, ...]] = []
        for rows, gate, content, output in steps:
            state = state[:, :rows].reshape(-1, queries, width)
            memory = torch.baddbmm(bias, state.view(parts, -1, width), weight_t)
            memory = memory.view(-1, queries, 3 * width)
            memory_gate, memory = memory.split((2 * width, width), dim=-1)
            gate = torch.sigmoid(gate + memory_gate)
            reset, keep = gate.chunk(2, dim=-1)
            new = torch.addcmul(content, reset, memory).tanh_()
            if ctx is not None:
                kept.append((state, memory, gate, new))
            state = torch.lerp(new, state, keep, out=output).view(parts, rows, queries, width)
        if ctx is not None:
            ctx.rows_T = rows_T
            ctx.save_for_backward(place_W, weight, *kept_together(kept))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        place_W, weight, states, memory, gate, new = ctx.saved_tensors
        queries, width = states.shape[1:]
        rows_T, parts = ctx.rows_T, len(weight)
        reset, keep = gate.chunk(2, dim=-1)
        # What a gradient of the output is multiplied with, to become one of the inputs.
        to_new = (1 - keep) * (1 - new.square())
        to_reset = to_new * memory * reset * (1 - reset)
        to_keep = (states - new) * keep * (1 - keep)
        to_memory = torch.stack((to_reset, to_keep, to_new * reset), dim=2)
        grad = grad.clone(memory_format=torch.contiguous_format)
        grad_memory = torch.empty_like(to_memory)
        by_row = grad, keep, to_memory, grad_memory
        steps = zip(rows_T, *(split(every, rows_T, parts) for every in by_row), strict=True)
        later: Tensor | None = None
        for rows, grad_, keep_, to_memory_, grad_memory_ in reversed(list(steps)):
            if later is not None:
                grad_.view(parts, rows, queries, width)[:, : later.shape[1]].add_(later)
            torch.mul(grad_[:, :, None], to_memory_, out=grad_memory_)
            later = torch.bmm(grad_memory_.view(parts, -1, 3 * width), weight).view_as(grad_)
            later = later.addcmul_(grad_, keep_).view(parts, rows, queries, width)
        rows_G = grad_memory[place_W].view(parts, -1, 3 * width)
        grad_inputs = grad_memory.clone()
        torch.mul(grad, to_new, out=grad_inputs[:, :, 2])
        return (
            *(None, None, grad_inputs.flatten(2), later),
            rows_G.transpose(1, 2) @ states[place_W].view(parts, -1, width),
            rows_G.sum(1),
        )


OPERATORS: dict[str, type[torch.autograd.Function]] = {"dds": DDSWalk, "gru": GRUWalk}
"""The operators by the names of their temporal parts."""


def walked(name: str, *arguments: Any) -> Tensor:
    """Return what an operator gives for its arguments; outside of autograd it keeps nothing."""
    operator = OPERATORS[name]
    if torch.is_grad_enabled():
        return operator.apply(*arguments)
    memory_W: Tensor = operator.forward(None, *arguments)
    return memory_W
