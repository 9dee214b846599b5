"""Does a model keep the sequences of one block apart?"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bload.batch.batch import Batch
from bload.errors import InputError

AGAIN = 0.01
"""Change of an output from run to run, in standard deviations: sums in another order make less."""


def check_boundaries(
    run: Callable[..., Tensor], batch: Batch, state: Any = None, *, tolerance: float = 0.02
) -> float:
    """Raise InputError if an output depends on another sequence of its block, or on padding.

        check_boundaries(model, batch)  # once, before the first step

    It replaces the inputs of one segment by noise, of padding, and the state that is carried in,
    and compares the outputs of all others. Where inputs are floating-point numbers, it also looks
    for gradients of a segment's outputs at the inputs of others.

    Args:
        run: the model, or what calls it: a batch -> outputs ``(B, T, ...)`` or ``(S, ...)``. A
            module is put into evaluation mode meanwhile; else, leave dropout out.
        batch: with two segments in a block; without any, the model is run and nothing compared.
        state: of an earlier batch under ``long="carry"``, a nest of tensors ``(B, ...)``; `run` is
            then given a batch and a state.
        tolerance: change of an output that is accepted, in standard deviations of all outputs; for
            gradients, in the largest at the segment's own inputs. Rounding in bfloat16 is below it.

    Returns:
        the largest of these changes, 0.0 for most models.

    Raises:
        InputError: it is above `tolerance`, or the same batch has other outputs when run again.
    """
    was_training = isinstance(run, nn.Module) and run.training
    if isinstance(run, nn.Module):
        run.eval()
    gpus = [batch.valid_BT.device] if batch.valid_BT.is_cuda else []
    try:
        with torch.random.fork_rng(gpus):  # training draws what it would draw without the check
            torch.manual_seed(0)
            worst, says = _worst(run, batch, () if state is None else (state,))
    finally:
        if isinstance(run, nn.Module):
            run.train(was_training)
    if worst > tolerance:
        raise InputError(f"{says}: the model does not keep them apart, see docs/boundaries.md")
    return worst


def _worst(run: Callable[..., Tensor], batch: Batch, state: tuple[Any, ...]) -> tuple[float, str]:
    with torch.no_grad():
        before, again = (run(batch, *state) for _ in range(2))
    count, number_BT = len(batch.segments), batch.number_BT
    shape = tuple(getattr(before, "shape", ()))
    if shape[:2] != batch.valid_BT.shape and shape[:1] != (count,):
        raise InputError(
            f"outputs are {type(before).__name__} {shape}; they have to be one tensor that begins "
            f"with {tuple(batch.valid_BT.shape)}, or with {count}, a value a segment"
        )
    if not count:
        return 0.0, ""
    spread = (
        float(before[batch.valid_BT if _by_slot(before, batch) else ...].float().std(correction=0))
        or 1.0
    )
    if float((again.float() - before.float()).abs().max()) > AGAIN * spread:
        raise InputError(
            "the same batch has other outputs when run again; leave dropout out: "
            "give the module itself, or call its eval()"
        )
    block_S = batch.segments.block_S
    inside = (block_S == block_S.bincount().argmax()).nonzero().squeeze(1).tolist()
    if len(inside) < 2:
        warnings.warn(
            "no block of this batch holds two sequences; give one that does", stacklevel=3
        )
    chosen = {inside[0], inside[len(inside) // 2], inside[-1]}  # three are enough
    names = [f"sequence {number}" for number in batch.segments.sequence_S.tolist()]
    names.append("padding")
    found = [(0.0, "")]

    def compare(changed: Batch, state: tuple[Any, ...], free: Tensor, what: str) -> None:
        """Note the largest change of a segment that is not `free` to change, bool ``(S + 1,)``."""
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
    """The largest gradient of a segment's outputs at inputs of another, of that at its own."""
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
    """Values with others where `where` is True: random numbers, or values of other places."""
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
    """The largest value of each segment, and of padding, ``(S + 1,)``."""
    count = len(batch.segments)
    if not _by_slot(values, batch):
        return torch.cat([values.reshape(count, -1).amax(1), values.new_zeros(1)])
    largest_N = values.flatten(0, 1).reshape(batch.valid_BT.numel(), -1).amax(1)
    none_S = values.new_zeros(count + 1)
    return none_S.scatter_reduce(0, batch.number_BT.flatten(), largest_N, "amax")
