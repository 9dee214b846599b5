"""Forms in which a model takes a batch ``(B, T, ...)``, and the search for one that is right.

Copy this file beside your program; docs/models.md has the forms of 213 architectures.
"""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any
from warnings import catch_warnings

import torch
from torch import Tensor, nn

from bload import Batch, InputError, check_boundaries, walk


def call_text_model(
    model: Any, batch: Batch, mask: Callable[..., Tensor] | None = None, **options: Any
) -> Tensor:
    """Call a model of transformers, without its cache, on what `Batch.transformers` returns.

    The function `mask` makes the attention mask; None leaves it to the model.
    """
    parameters = signature(type(model).forward).parameters
    tables = (table for name, table in model.named_modules() if "position" in name)
    padding = [t.padding_idx for t in tables if hasattr(t, "padding_idx") and hasattr(t, "weight")]
    first = 1 + max((index for index in padding if index is not None), default=-1)
    inputs = batch.transformers(**options, first_position=first)
    del inputs["labels"]  # with them, the loss is the first output
    if mask is not None:
        inputs["attention_mask"] = mask(model, batch)
    if all(parameter.kind is not Parameter.VAR_KEYWORD for parameter in parameters.values()):
        inputs = {key: value for key, value in inputs.items() if key in parameters}
    if "use_cache" in parameters or model.can_generate():
        inputs["use_cache"] = False
    values = main_output(model(**inputs))
    if values.shape[:2] == batch.valid_BT.shape:
        return values
    values_BT = values.new_zeros(*batch.valid_BT.shape, *values.shape[2:])
    values_BT[batch.valid_BT] = values[0]
    return values_BT


def main_output(outputs: Any) -> Tensor:
    """Return the first output of a model."""
    tensor: Tensor = outputs if isinstance(outputs, Tensor) else outputs[0]
    return tensor


def call_alone(model: Any, sequence: Tensor) -> Tensor:
    """Call a model on one sequence, ``(frames, ...)``, without any argument of ours."""
    if hasattr(model, "init_state"):
        start_1T = torch.arange(len(sequence), device=sequence.device)[None] == 0
        return walk(model, sequence[None], start_1T)[0][0]
    if isinstance(model, nn.RNNBase):
        return main_output(model(sequence))  # whatever its batch_first
    return main_output(model(sequence[None]))[0]


MASKS: dict[str, Callable[[Any, Batch], Tensor]] = {
    "bool mask": lambda _, batch: batch.attention_mask(),
    "bool mask, causal=False": lambda _, batch: batch.attention_mask(False),
    "additive mask": lambda model, batch: batch.attention_mask().to(model.dtype).log(),
    "additive mask, causal=False": lambda m, batch: batch.attention_mask(False).to(m.dtype).log(),
    "padding mask": lambda _, batch: batch.valid_BT.long(),
}
FORMS: dict[str, Callable[[Any, Batch], Tensor]] = {
    "inputs": lambda model, batch: main_output(model(batch.inputs_BT)),
    "packed": lambda rnn, batch: batch.from_packed(rnn(batch.to_packed(batch.inputs_BT))[0]),
    "walk": lambda part, batch: walk(part, batch.inputs_BT, batch.start_BT)[0],
    "rows=True": partial(call_text_model, rows=True),
    "flash_attn=True": partial(call_text_model, flash_attn=True),
    "rows=True, seq_idx=True": partial(call_text_model, rows=True, seq_idx=True),
    "flash_attn=True, seq_idx=True": partial(call_text_model, flash_attn=True, seq_idx=True),
    **{name: partial(call_text_model, rows=True, mask=mask) for name, mask in MASKS.items()},
}
"""Functions from a model and a batch to the first output ``(B, T, ...)``, cheapest first."""


def find_form(model: nn.Module, batch: Batch) -> str:
    """Return the first key of `FORMS` in which each sequence has the outputs that it has alone.

        form = FORMS[find_form(model, batch)]  # once, before training
        outputs_BT = form(model, batch)

    *Alone* is the model's own call on one sequence. The form holds for sequences like those of the
    batch: a window or chunk of the model that is longer than all of them is not tried.

    Args:
        model: model of transformers that takes ``input_ids``, RNN of torch, module for `walk`, or
            any module that takes and returns a tensor ``(B, T, ...)``.
        batch: batch with two sequences in a block, on the model's device.

    Raises:
        InputError: no form holds; the message says of each why.
    """
    faults = []
    in_training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        for name, form in FORMS.items():
            try:
                with catch_warnings(action="ignore"):
                    check_boundaries(partial(form, model), batch, alone=partial(call_alone, model))
                return name
            except Exception as error:  # models refuse a form by exceptions of any kind
                faults.append(f"{name}: {str(error).split(': ')[0][:200]}")
    finally:
        for part in in_training:
            part.training = True
    raise InputError(
        "no form keeps these sequences apart; try a batch of packer='bucket', or else of 'single' "
        f"({'; '.join(faults)})"
    )
