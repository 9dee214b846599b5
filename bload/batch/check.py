"""Check that a model gives every sequence of a block the outputs that it has alone."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bload.batch.batch import Batch, check_batch
from bload.batch.boundaries import Segments
from bload.batch.trees import map_tensors, map_values
from bload.errors import InputError

MIXED = (
    ": the model does not keep them apart; give it their boundaries, such as batch.to_packed for "
    "an LSTM or batch.attention_mask() (docs/boundaries.md)"
)


def check_boundaries(
    run: Callable[[Batch], Tensor],
    batch: Batch,
    *,
    alone: Callable[[Any], Tensor] | None = None,
    tolerance: float | None = None,
) -> float:
    """Raise InputError unless sequences have the outputs that they have alone.

        check_boundaries(model, batch)  # once, before the first step

    Noise replaces each of three segments, the padding, and all but each of the three: no output of
    the rest may change, and for floating-point inputs no gradient may reach others.
    Then these three are compared with themselves in a batch of their own, of the same shape, in
    another row, which also finds positions that are counted by slot. A mask that replaces the
    model's own window does so in that batch too; only `alone` finds it.

    Args:
        run: the model, or a function such as ``lambda batch: linear(batch.inputs_BT)``: a batch ->
            outputs ``(B, T, ...)`` or ``(S, ...)``. A module, not yet sharded by FSDP, is put into
            evaluation mode; a function leaves dropout out, and may hold states of rows that go on.
        batch: batch with two segments in a block, else `alone` is needed; a filler passes. A
            warning says that no output depends on an earlier frame.
        alone: the model for one sequence, such as ``lambda frames: model(frames[None])[0]``: inputs
            ``(frames, ...)``, or a dict of these -> outputs ``(frames, ...)``, or ``(...)`` if
            there is one per segment.
        tolerance: accepted change, in standard deviations of all outputs; for gradients, relative
            to the largest at the segment's own inputs (outputs per segment: to those at its ends,
            where others would come in). None accepts, from other segments, ten times
            the change between two equal runs or 1e-5 (1e-3 in half precision), in gradients 1e-3,
            and against the sequence alone and between two equal runs 1e-3 (0.05).

    Returns:
        the largest change, about 1e-7 for most models.

    Raises:
        InputError: a change is above its tolerance; the message names it.
    """
    module = run if isinstance(run, nn.Module) else nn.Module()
    if any(hasattr(parameter, "full_tensor") for parameter in module.parameters()):
        raise InputError("the model is sharded over ranks; check it before fully_shard")
    check_batch(batch)
    if not len(batch.segments):
        return 0.0
    gpus = [batch.valid_BT.device] if batch.valid_BT.is_cuda else []
    with torch.inference_mode(False), evaluation_mode(module), torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(0)
        check = _Check(run, batch._map(Tensor.clone), tolerance)  # which may take gradients
        check.compare_with_noise()
        check.compare_alone(alone)
        check.look_for_context()
    return check.largest


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its parts back into its own."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class _Check:
    """A model on a batch, and the largest change of its outputs.

    Segments have the indices 0 to S - 1, and padding is S.
    """

    def __init__(
        self, run: Callable[[Batch], Tensor], batch: Batch, tolerance: float | None
    ) -> None:
        self.run, self.batch, self.batch_segment_BT = run, batch, batch.batch_segment_BT
        self.names = [*(f"sequence {n}" for n in batch.segments.sequence_S.tolist()), "padding"]
        with torch.no_grad():
            self.outputs, again = (self._run(batch) for _ in range(2))
        values = self.outputs[batch.valid_BT]
        values = values[values.isfinite()].float()
        self.deviation = (float(values.std(correction=0)) if len(values) else 0.0) or 1.0
        change, _ = self._largest(_difference(again, self.outputs), batch.valid_BT)
        self.largest = rounding = change / self.deviation
        is_half = self.outputs.dtype in (torch.float16, torch.bfloat16)
        self.rerun_tolerance = (0.05 if is_half else 1e-3) if tolerance is None else tolerance
        """Tolerance between two runs that should be equal."""
        if math.isnan(rounding):
            raise InputError("outputs are NaN and not checked; torch.nn takes ~attention_mask()")
        if rounding > self.rerun_tolerance:
            raise InputError(
                "the same batch has other outputs when run again; leave dropout out (give the "
                "module itself, or call its eval()), keep no state from call to call, and raise "
                "`tolerance` for inexact kernels"
            )
        smallest = 1e-3 if is_half else 1e-5
        self.noise_tolerance = max(10 * rounding, smallest) if tolerance is None else tolerance
        self.gradient_tolerance = 1e-3 if tolerance is None else tolerance
        self.chosen = _choose_segments(batch)
        self.scales: list[float] = []
        """Of outputs per segment: gradients at first or last frames, the lesser of each segment."""

    def _run(self, batch: Batch) -> Tensor:
        """Return the outputs, ``(B, T, ...)``; one per segment stands at each of its frames."""
        slots, count = tuple(batch.valid_BT.shape), len(batch.segments)
        advice = (
            f"give a function of a batch that returns one tensor: it begins with {slots}, as from "
            f"batch.from_packed, or with {count}, one value per segment, as from batch.last"
        )
        try:
            outputs = self.run(batch)
        except (TypeError, AttributeError) as error:
            if "Batch" not in str(error).replace("BatchNorm", ""):
                raise
            raise InputError(f"the model takes no batch ({error}); {advice}") from error
        shape = tuple(getattr(outputs, "shape", ()))
        self.is_by_slot = shape[:2] == slots
        if self.is_by_slot:
            return outputs
        if shape[:1] == (count,):
            return torch.cat([outputs, outputs.new_zeros(1, *shape[1:])])[batch.batch_segment_BT]
        raise InputError(f"outputs are {type(outputs).__name__} {shape}; {advice}")

    def compare_with_noise(self) -> None:
        for index in self.chosen:
            self._judge_noise(self.names[index], self.batch_segment_BT == index)
            self._judge_gradients(index)
        self._judge_noise("padding", ~self.batch.valid_BT)
        for index in self.chosen:
            self._judge_noise("everything else in the batch", self.batch_segment_BT != index)

    def _judge(self, size: float, tolerance: float, message: str) -> None:
        if not size <= tolerance:
            raise InputError(message)
        self.largest = max(self.largest, size)

    def _change(self, noise_BT: Tensor) -> Tensor:
        """Return the change of the outputs by inputs that are noise in the slots of `noise_BT`."""
        noisy = map_tensors(self.batch.inputs_BT, lambda values: _noise(values, noise_BT))
        with torch.no_grad():
            return _difference(self._run(replace(self.batch, inputs_BT=noisy)), self.outputs)

    def _judge_noise(self, cause: str, noise_BT: Tensor) -> None:
        """Judge the largest change, by noise, of the outputs on all other frames."""
        change, name = self._largest(self._change(noise_BT), self.batch.valid_BT & ~noise_BT)
        size = change / self.deviation
        words = f"replaced by noise changes {name} by {size:.2g} standard deviations{MIXED}"
        self._judge(size, self.noise_tolerance, f"{cause} {words}")

    def _judge_gradients(self, index: int) -> None:
        """Judge the largest gradient at the inputs of others, relative to that at its own."""
        inputs_BT = map_tensors(
            self.batch.inputs_BT, lambda leaf: leaf.clone().requires_grad_(leaf.is_floating_point())
        )
        inputs = [leaf for leaf in pytree.tree_leaves(inputs_BT) if leaf.requires_grad]
        own_BT = self.batch_segment_BT == index
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # RNNs in eval mode
            outputs = self._run(replace(self.batch, inputs_BT=inputs_BT))
            if not (inputs and outputs.requires_grad):
                return
            total = outputs[own_BT].float().square().sum()
        for grad in torch.autograd.grad(total, inputs, allow_unused=True):
            if grad is not None:
                scale, _ = self._largest(grad.abs(), own_BT)
                if not self.is_by_slot:  # what others leave passes by the first or last frame
                    scale = float(grad[own_BT][[0, -1]].abs().reshape(2, -1).amax(1).min())
                    self.scales.append(scale)
                change, reached = self._largest(grad.abs(), ~own_BT)
                size = change / (scale or 1.0)
                share = f"reaches {reached}, {size:.2g} of that at its own{MIXED}"
                if math.isnan(size):
                    share = (
                        f"is NaN on {reached}: a row of a mask may be empty; let padding see itself"
                    )
                message = f"the gradient of {self.names[index]} {share}"
                self._judge(size, self.gradient_tolerance, message)

    def compare_alone(self, alone: Callable[[Any], Tensor] | None) -> None:
        batch, table = self.batch, self.batch.segments
        if len(self.chosen) < 2 and alone is None:
            raise InputError(
                "no block of this batch holds two sequences to keep apart; raise batch_slots, or "
                "give `alone` if no block ever does (bucket, single, carry)"
            )
        for index in self.chosen:
            columns = table.block_S, table.slot_S, table.length_S
            row, slot, length = (int(column[index]) for column in columns)
            if not batch.start_BT[row, slot]:
                continue
            part = row, slice(slot, slot + length)
            expected = self.outputs[part]
            with torch.no_grad():
                if alone is not None:
                    expected = expected if self.is_by_slot else expected[0]
                    outputs = alone(_take(batch.inputs_BT, part))
                else:
                    other = (row + 1) % len(batch.valid_BT)
                    outputs = self._run(_take_segment(batch, index, part, other))[other, :length]
            shape = tuple(getattr(outputs, "shape", ()))
            if shape != expected.shape:
                raise InputError(
                    f"alone returned {type(outputs).__name__} {shape} for {length} frames, and the "
                    f"batch has {tuple(expected.shape)} for them; return one tensor of that shape"
                )
            size = float(_difference(outputs, expected).max()) / self.deviation
            message = (
                f"{self.names[index]} has other outputs in its block than alone, by {size:.2g} "
                "standard deviations: its position, its mask or its state is not its own; see "
                "batch.segment_position_BT and batch.attention_mask() (docs/boundaries.md)"
            )
            self._judge(size, self.rerun_tolerance, message)

    def look_for_context(self) -> None:
        """Warn if the first frames of sequences change no other frame's outputs."""
        start_BT, later_BT = self.batch.start_BT, self.batch.valid_BT & ~self.batch.start_BT
        change, _ = self._largest(self._change(start_BT), later_BT)
        is_blind = not (self.is_by_slot or min(self.scales, default=0.0))
        least = self.noise_tolerance * self.deviation if is_blind else 0.0
        if change <= least and start_BT.any() and later_BT.any():
            warnings.warn(
                "the first frames of sequences change no later output: either the model has no "
                "memory, or it sees single frames, as nn.GRU does without batch_first=True, or it "
                "has forgotten them in its one output per sequence: check it on shorter sequences",
                stacklevel=3,
            )

    def _largest(self, values_BT: Tensor, where_BT: Tensor) -> tuple[float, str]:
        """Return the largest value in some slots, and the name of its segment or of padding."""
        largest_BT = values_BT.reshape(*where_BT.shape, -1).amax(2).where(where_BT, 0)
        index = self.batch_segment_BT.flatten()[largest_BT.argmax()]
        return float(largest_BT.max()), self.names[int(index)]


def _choose_segments(batch: Batch) -> list[int]:
    """Return the first, middle and last segment of the block with the most of them."""
    block_S = batch.segments.block_S
    inside = (block_S == block_S.bincount().argmax()).nonzero().squeeze(1).tolist()
    return sorted({inside[0], inside[len(inside) // 2], inside[-1]})


def _take_segment(batch: Batch, index: int, part: tuple[int, slice], row: int) -> Batch:
    """Return a batch of the same shape with one segment alone, in the first slots of `row`."""
    table, rows = batch.segments, slice(index, index + 1)
    frames = slice(*batch.cu_seqlens[index : index + 2].tolist())
    length = part[1].stop - part[1].start
    zero_S = table.slot_S[rows] * 0
    kept = table.length_S[rows], table.sequence_S[rows], table.first_S[rows]

    def move(values_BT: Tensor) -> Tensor:
        moved_BT = torch.zeros_like(values_BT)
        moved_BT[row, :length] = values_BT[part]
        return moved_BT

    return replace(
        batch,
        inputs_BT=map_tensors(batch.inputs_BT, move),
        targets_BT=map_tensors(batch.targets_BT, move),
        targets=_take(batch.targets, frames),
        targets_S=_take(batch.targets_S, rows),
        valid_BT=move(batch.valid_BT),
        start_BT=move(batch.start_BT),
        segments=Segments(zero_S + row, zero_S, *kept, longest=length),
        continues_B=torch.zeros_like(batch.continues_B),
    )


def _take(tree: Any, part: Any) -> Any:
    return map_values(tree, lambda values: None if values is None else values[part])


def _difference(values: Tensor, others: Tensor) -> Tensor:
    """Return the absolute difference; equal infinities, as of masked outputs, do not differ."""
    return (values.float() - others.float()).abs().where(values != others, 0)


def _noise(values: Tensor, where: Tensor) -> Tensor:
    """Replace values where `where` is True by random numbers, or integers by other integers."""
    if values.is_floating_point():
        noise = torch.randn_like(values) * (values.float().std().nan_to_num(1.0) + 1e-3)
    else:
        drawn = torch.randint(values.numel(), values.shape, device=values.device)
        noise = values.flatten()[drawn]
    where = where.view(*where.shape, *(1,) * (values.dim() - where.dim()))
    return torch.where(where, noise.to(values.dtype), values)
