"""Check that a model gives every sequence of a block the outputs that it has alone."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bload.batch.batch import Batch
from bload.batch.segments import Segments
from bload.batch.trees import on_tensors
from bload.errors import InputError

HALF = torch.float16, torch.bfloat16
APART = ": the model does not keep them apart, see docs/boundaries.md"


class _Change(NamedTuple):
    weight: int
    """Of several failures, the one with the largest weight is reported."""
    size: float
    tolerance: float
    words: str


def check_boundaries(
    run: Callable[..., Tensor],
    batch: Batch,
    state: Any = None,
    *,
    alone: Callable[[Any], Tensor] | None = None,
    tolerance: float | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> float:
    """Raise InputError unless sequences have the outputs that they have alone.

        check_boundaries(model, batch)  # once, before the first step

    Noise replaces all other segments and the padding at once, then single segments, the padding, or
    the carried state: no output of the rest may change, and for floating-point inputs no gradient
    may reach others. Then three segments are compared with themselves in a batch of their own, of
    the same shape, which also finds positions that are counted by slot. A mask that replaces the
    model's own window does so in that batch too; only `alone` finds it.

    Args:
        run: the model, or a function: a batch -> outputs ``(B, T, ...)`` or ``(S, ...)``. A module
            is in evaluation mode during the check; a function must leave dropout out.
        batch: batch with two segments in a block, else a warning; a filler passes.
        state: state of an earlier batch with ``long="carry"``, a nest of tensors ``(B, ...)``;
            `run` then takes a batch and a state.
        alone: the model as it is called for one sequence: inputs ``(frames, ...)``, or a dict of
            these -> outputs ``(frames, ...)``, or ``(...)`` if there is one per segment; such as
            ``lambda frames: model(frames[None])[0]``.
        tolerance: accepted change, in standard deviations of all outputs; for gradients, relative
            to the largest at the segment's own inputs. None accepts, from other segments, ten times
            the change between two equal runs or 1e-5 (1e-3 in half precision), in gradients 1e-3,
            and against the sequence alone and between two equal runs 1e-3 (0.05).
        process_group: group of ranks that call this together, each with its own batch: all raise or
            none, and all call the model equally often. Sharded models (FSDP) need it.

    Returns:
        the largest change, about 1e-7 for most models.

    Raises:
        InputError: a change is above its tolerance; the message names it.
    """
    if isinstance(run, nn.RNNBase | nn.RNNCellBase):
        raise InputError(
            f"a {type(run).__name__} does not take a batch; give a function of a batch, such as "
            "lambda batch: batch.from_packed(gru(batch.to_packed(batch.inputs_BT))[0])"
        )
    module = run if isinstance(run, nn.Module) else nn.Module()
    if process_group is None and any(hasattr(one, "full_tensor") for one in module.parameters()):
        raise InputError(
            "the parameters of the model are sharded over ranks, which have to call it equally "
            "often; pass process_group, on every rank"
        )
    was_training = module.training
    module.eval()
    gpus = [batch.valid_BT.device] if batch.valid_BT.is_cuda else []
    try:
        with torch.random.fork_rng(gpus):  # keeps the random state of training
            torch.manual_seed(0)
            states = () if state is None else (state,)
            changes = _changes(run, batch, states, alone, tolerance, process_group)
    finally:
        module.train(was_training)
    bad = [change for change in changes if not change.size <= change.tolerance]
    _agree(max(bad).words if bad else "", process_group)
    return max(change.size for change in changes)


def _agree(fault: str, group: dist.ProcessGroup | None) -> None:
    """Raise InputError on all ranks of a group if there is a fault on one of them."""
    if group is not None:
        faults: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(faults, fault, group)
        fault = next((f"rank {rank}: {some}" for rank, some in enumerate(faults) if some), "")
    if fault:
        raise InputError(fault)


def _changes(
    run: Callable[..., Tensor],
    batch: Batch,
    state: tuple[Any, ...],
    alone: Callable[[Any], Tensor] | None,
    tolerance: float | None,
    group: dist.ProcessGroup | None,
) -> list[_Change]:
    with torch.no_grad():
        before, again = (run(batch, *state) for _ in range(2))
    count, number_BT = len(batch.segments), batch.number_BT
    fault, shape = "", tuple(getattr(before, "shape", ()))
    is_half = getattr(before, "dtype", None) in HALF
    close = (0.05 if is_half else 1e-3) if tolerance is None else tolerance
    if shape[:2] != number_BT.shape and shape[:1] != (count,):
        fault = (
            f"outputs are {type(before).__name__} {shape}; they have to be one tensor that begins "
            f"with {tuple(number_BT.shape)}, or with {count}, one value per segment"
        )
    else:
        values = before[batch.valid_BT] if _by_slot(before, batch) else before
        values = values[values.isfinite()].float()
        spread = (float(values.std(correction=0)) if len(values) else 0.0) or 1.0
        change_S = _by_segment(_difference(again, before), batch)[:-1]
        rounding = float(change_S.max()) / spread if count else 0.0
        if not rounding <= close:
            fault = (
                "the same batch has other outputs when run again; leave dropout out: give the "
                "module itself, or call its eval(); raise `tolerance` for inexact kernels"
                if rounding == rounding
                else "outputs of a sequence are NaN; the model cannot be checked"
            )
    _agree(fault, group)
    limit = max(10 * rounding, 1e-3 if is_half else 1e-5) if tolerance is None else tolerance
    steep = 1e-3 if tolerance is None else tolerance
    names = [f"sequence {number}" for number in batch.segments.sequence_S.tolist()] + ["padding"]
    number_S = torch.arange(count + 1, device=number_BT.device)
    changes = [_Change(0, rounding, close, "")]

    def compare(what: str, noise_BT: Tensor, kept_S: Tensor, state: tuple[Any, ...]) -> None:
        """Add the largest change of the outputs of `kept_S`, bool ``(S + 1,)``, by noise."""
        noisy = pytree.tree_map(lambda values: _noise(values, noise_BT), batch.inputs_BT)
        with torch.no_grad():
            change = _difference(run(replace(batch, inputs_BT=noisy), *state), before)
        change_S = _by_segment(change, batch).where(kept_S & (number_S < count), 0) / spread
        size, name = float(change_S.max()), names[int(change_S.argmax())]
        words = f"{what} replaced by noise changes {name} by {size:.2g} of its spread"
        changes.append(_Change(1 + (what in names), size, limit, words + APART))

    chosen = _chosen(batch, repeat=group is not None)
    for number in chosen:
        everything = "everything else in the batch"
        compare(everything, number_BT != number, number_S == number, state)
        compare(names[number], number_BT == number, number_S != number, state)
        changes += _gradients(run, batch, state, number, names, steep)
    if group is not None or bool((number_BT == count).any()):
        compare("padding", number_BT == count, number_S < count, state)
    if state:
        other = pytree.tree_map(lambda values: _noise(values, values == values), state)
        starts_S = number_S < count
        if batch.continues_B is not None:
            starts_S[number_BT[batch.continues_B, 0]] = False
        compare("the state carried in", torch.zeros_like(batch.valid_BT), starts_S, other)
    for number in chosen:
        size, fault = _against_alone(run, batch, state, number, before, alone)
        size /= spread
        words = fault or (
            f"{names[number]} has other outputs in its block than alone, by {size:.2g} of its "
            "spread: its position, its mask or its state is not its own, see docs/boundaries.md"
        )
        changes.append(_Change(3 if fault else 0, size, close, words))
    return changes


def _chosen(batch: Batch, repeat: bool) -> list[int]:
    """Return segments of the fullest block; with `repeat` always as many, 0 without segments."""
    block_S = batch.segments.block_S
    inside = [0]
    if len(block_S):
        inside = (block_S == block_S.bincount().argmax()).nonzero().squeeze(1).tolist()
    if len(inside) < 2 and len(block_S):
        warnings.warn(
            "no block of this batch holds two sequences; give another batch", stacklevel=4
        )
    chosen = [inside[0], inside[len(inside) // 2], inside[-1]]
    if repeat:
        return chosen
    return sorted({*chosen}) if len(block_S) else []


def _against_alone(
    run: Callable[..., Tensor],
    batch: Batch,
    state: tuple[Any, ...],
    number: int,
    before: Tensor,
    alone: Callable[[Any], Tensor] | None,
) -> tuple[float, str]:
    """Return the largest difference of a segment's outputs to those that it has alone.

    Infinity and a message stand for outputs of another shape.
    """
    table = batch.segments
    columns = table.block_S, table.slot_S, table.length_S
    row, slot, length = (int(c[number]) for c in columns) if len(table) else (0, 0, 1)
    part = row, slice(slot, slot + length)

    def moved(values_BT: Tensor) -> Tensor:
        first_BT = torch.zeros_like(values_BT)
        first_BT[0, :length] = values_BT[part]
        return first_BT

    with torch.no_grad():
        if alone is not None:
            outputs = alone(on_tensors(batch.inputs_BT, lambda values_BT: values_BT[part]))
        else:
            only = slice(number, number + 1)
            zero_S, ends = table.slot_S[only] * 0, [0, *table.length_S.cumsum(0).tolist()]
            frames = slice(ends[number], ends[number + 1]) if len(table) else slice(0)
            small = replace(
                batch,
                inputs_BT=on_tensors(batch.inputs_BT, moved),
                targets_BT=on_tensors(batch.targets_BT, moved),
                targets=_cut(batch.targets, frames),
                targets_S=_cut(batch.targets_S, only),
                valid_BT=moved(batch.valid_BT),
                start_BT=moved(batch.start_BT),
                segments=Segments(
                    zero_S,
                    zero_S,
                    *(c[only] for c in (table.length_S, table.sequence_S, table.first_S)),
                    longest=length if len(table) else 0,
                ),
                continues_B=None,
            )
            outputs = run(small, *state)
            outputs = outputs[0, :length] if _by_slot(before, batch) else outputs[:1].squeeze(0)
    if not len(table) or not batch.start_BT[row, slot]:
        return 0.0, ""
    usual = before[part] if _by_slot(before, batch) else before[number]
    shape = getattr(outputs, "shape", ())
    if shape != usual.shape:
        return math.inf, (
            f"alone returned {type(outputs).__name__} {tuple(shape)} for {length} frames, and the "
            f"batch has {tuple(usual.shape)} for them; return one tensor of that shape"
        )
    return float(_difference(outputs, usual).max()), ""


def _cut(tree: Any, part: slice) -> Any:
    if isinstance(tree, dict):
        return {key: value[part] for key, value in tree.items()}
    return None if tree is None else tree[part]


def _gradients(
    run: Callable[..., Tensor],
    batch: Batch,
    state: tuple[Any, ...],
    number: int,
    names: list[str],
    limit: float,
) -> list[_Change]:
    """Return the largest gradient of a segment's outputs at other inputs, relative to its own."""
    leaves, tree = pytree.tree_flatten(batch.inputs_BT)
    leaves = [leaf.clone().requires_grad_(leaf.is_floating_point()) for leaf in leaves]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not wanted:
        return []
    with torch.enable_grad():
        outputs = run(replace(batch, inputs_BT=pytree.tree_unflatten(leaves, tree)), *state)
    if not outputs.requires_grad:
        return []
    part = batch.number_BT == number if _by_slot(outputs, batch) else slice(number, number + 1)
    with torch.enable_grad():
        total = outputs[part].float().square().sum()
    grads = torch.autograd.grad(total, wanted, allow_unused=True)
    changes = []
    for grad in grads:
        if grad is not None:
            size_S = _by_segment(grad.float().abs(), batch)
            own, size_S[number] = float(size_S[number]) or 1.0, 0
            size, other = float(size_S.max()) / own, names[int(size_S.argmax())]
            words = (
                f"the gradient of {names[number]} reaches {other}, {size:.2g} of that at its own"
            )
            changes.append(_Change(2, size, limit, words + APART))
    return changes


def _difference(one: Tensor, other: Tensor) -> Tensor:
    """Return the absolute difference; equal infinities, as of masked outputs, do not differ."""
    return (one.float() - other.float()).abs().where(one != other, 0)


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
        largest_S = values.reshape(count, -1).amax(1) if count else values.new_zeros(0)
        return torch.cat([largest_S, values.new_zeros(1)])
    largest_N = values.flatten(0, 1).reshape(batch.valid_BT.numel(), -1).amax(1)
    none_S = values.new_zeros(count + 1)
    return none_S.scatter_reduce(0, batch.number_BT.flatten(), largest_N, "amax")
