"""Check that a model keeps the sequences of a block apart."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bload.batch.batch import Batch
from bload.errors import InputError


def check_boundaries(
    run: Callable[..., Tensor], batch: Batch, state: Any = None, *, tolerance: float = 0.001
) -> float:
    """Raise InputError if an output depends on another sequence of its block, or on padding.

        check_boundaries(model, batch)  # once, before the first step

    The check replaces the inputs of one segment, those of padding, or the carried state by noise,
    and compares the outputs of all other segments. For floating-point inputs, it also looks for
    gradients of a segment's outputs at the inputs of others.

    Args:
        run: the model, or a function: a batch -> outputs ``(B, T, ...)`` or ``(S, ...)``. A module
            is in evaluation mode during the check; a function must leave dropout out.
        batch: batch with two segments in a block, else a warning; without segments, nothing is
            compared.
        state: state of an earlier batch with ``long="carry"``, a nest of tensors ``(B, ...)``;
            `run` then takes a batch and a state.
        tolerance: accepted change of an output, in standard deviations of all outputs, also
            between two equal runs; for gradients, relative to the largest at the segment's own
            inputs. A new model may mix sequences by less than one hundredth.

    Returns:
        the largest of these changes, 0.0 for most models.

    Raises:
        InputError: a change is above `tolerance`, or two runs on the same batch differ.
    """
    was_training = isinstance(run, nn.Module) and run.training
    if isinstance(run, nn.Module):
        run.eval()
    gpus = [batch.valid_BT.device] if batch.valid_BT.is_cuda else []
    try:
        with torch.random.fork_rng(gpus):  # keeps the random state of training
            torch.manual_seed(0)
            worst, says = _worst(run, batch, () if state is None else (state,), tolerance)
    finally:
        if isinstance(run, nn.Module):
            run.train(was_training)
    if worst > tolerance:
        raise InputError(f"{says}: the model does not keep them apart, see docs/boundaries.md")
    return worst


def _worst(
    run: Callable[..., Tensor], batch: Batch, state: tuple[Any, ...], tolerance: float
) -> tuple[float, str]:
    with torch.no_grad():
        before, again = (run(batch, *state) for _ in range(2))
    count, number_BT = len(batch.segments), batch.number_BT
    shape = tuple(getattr(before, "shape", ()))
    if shape[:2] != batch.valid_BT.shape and shape[:1] != (count,):
        raise InputError(
            f"outputs are {type(before).__name__} {shape}; they have to be one tensor that begins "
            f"with {tuple(batch.valid_BT.shape)}, or with {count}, one value per segment"
        )
    if not count:
        return 0.0, ""
    spread = (
        float(before[batch.valid_BT if _by_slot(before, batch) else ...].float().std(correction=0))
        or 1.0
    )
    if float((again.float() - before.float()).abs().max()) > tolerance * spread:
        raise InputError(
            "the same batch has other outputs when run again; leave dropout out: "
            "give the module itself, or call its eval(); raise `tolerance` for inexact kernels"
        )
    block_S = batch.segments.block_S
    inside = (block_S == block_S.bincount().argmax()).nonzero().squeeze(1).tolist()
    if len(inside) < 2:
        warnings.warn(
            "no block of this batch holds two sequences; give another batch", stacklevel=3
        )
    chosen = {inside[0], inside[len(inside) // 2], inside[-1]}  # three are enough
    names = [f"sequence {number}" for number in batch.segments.sequence_S.tolist()]
    names.append("padding")
    found = [(0.0, "")]

    def compare(changed: Batch, state: tuple[Any, ...], free: Tensor, what: str) -> None:
        """Add the largest change of a segment that is not `free`, bool ``(S + 1,)``, to change."""
        with torch.no_grad():
            change = (run(changed, *state).float() - before.float()).abs()
        change_S = _by_segment(change, batch).masked_fill(free, 0) / spread
        name = names[int(change_S.argmax())]
        size = float(change_S.max())
        found.append((size, f"{what} replaced by noise changes {name} by {size:.2g} of its spread"))

    padding = torch.arange(count + 1, device=number_BT.device) == count
    for number in [*sorted(chosen), *([count] if bool((number_BT == count).any()) else [])]:
        mine_BT, free = number_BT == number, padding.clone()
        free[number] = True
        noisy = pytree.tree_map(lambda values, at=mine_BT: _noise(values, at), batch.inputs_BT)
        compare(replace(batch, inputs_BT=noisy), state, free, names[number])
        if number < count:
            found += _gradients(run, batch, state, number, names)
    if state:
        other = pytree.tree_map(lambda values: _noise(values, values == values), state)
        goes_on = torch.zeros_like(padding)
        if batch.continues_B is not None:
            goes_on[number_BT[batch.continues_B, 0]] = True
        compare(batch, other, goes_on | padding, "the state carried in")
    return max(found)


def _gradients(
    run: Callable[..., Tensor], batch: Batch, state: tuple[Any, ...], number: int, names: list[str]
) -> list[tuple[float, str]]:
    """Return the largest gradient of a segment's outputs at other inputs, relative to its own."""
    leaves, tree = pytree.tree_flatten(batch.inputs_BT)
    leaves = [one.clone().requires_grad_(one.is_floating_point()) for one in leaves]
    wanted = [one for one in leaves if one.requires_grad]
    if not wanted:
        return []
    outputs = run(replace(batch, inputs_BT=pytree.tree_unflatten(leaves, tree)), *state)
    if not outputs.requires_grad:
        return []
    mine = outputs[batch.number_BT == number] if _by_slot(outputs, batch) else outputs[number]
    grads = torch.autograd.grad(mine.float().square().sum(), wanted, allow_unused=True)
    found = []
    for grad in grads:
        if grad is not None:
            size_S = _by_segment(grad.float().abs(), batch)
            own, size_S[number] = float(size_S[number]) or 1.0, 0
            size, other = float(size_S.max()) / own, names[int(size_S.argmax())]
            says = f"the gradient of {names[number]} reaches {other}, {size:.2g} of that at its own"
            found.append((size, says))
    return found


def _noise(values: Tensor, where: Tensor) -> Tensor:
    """Replace values where `where` is True by random numbers, or integers by other integers."""
    if values.is_floating_point():
        noise = torch.randn_like(values) * (values.float().std().nan_to_num(1.0) + 1e-3)
    else:
        at = torch.randint(values.numel(), values.shape, device=values.device)
        noise = values.flatten()[at]
    where = where.view(*where.shape, *(1,) * (values.dim() - where.dim()))
    return torch.where(where, noise.to(values.dtype), values)


def _by_slot(values: Tensor, batch: Batch) -> bool:
    return values.shape[:2] == batch.valid_BT.shape


def _by_segment(values: Tensor, batch: Batch) -> Tensor:
    """Return the largest value of each segment, and of padding, ``(S + 1,)``."""
    count = len(batch.segments)
    if not _by_slot(values, batch):
        return torch.cat([values.reshape(count, -1).amax(1), values.new_zeros(1)])
    largest_N = values.flatten(0, 1).reshape(batch.valid_BT.numel(), -1).amax(1)
    none_S = values.new_zeros(count + 1)
    return none_S.scatter_reduce(0, batch.number_BT.flatten(), largest_N, "amax")
