"""Find the form of a batch in which a model gives each sequence the outputs that it has alone."""

import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from inspect import Parameter, getsource, signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bload.batch.batch import Batch, BlockSample, collate_blocks
from bload.batch.check import check_boundaries
from bload.batch.small_copy import SMALL, draw_weights, small_copy
from bload.batch.walk import walk
from bload.errors import InputError
from bload.packing.plan import Block

LENGTHS = (20, 22), (9, 30, 7)
"""Lengths of the texts of a trial, block by block."""
KERNELS: Sequence[str] = ("causal_conv1d", "mamba_ssm", "fla")
"""Packages with kernels that take ``seq_idx`` or ``cu_seq_lens``; what replaces them does not."""
TEXT_FORMS = (
    ("rows=True", ""),
    ("flash_attn=True", ""),
    ("rows=True, seq_idx=True", ""),
    ("flash_attn=True, seq_idx=True", ""),
    ("", ""),
    ("rows=True", "batch.attention_mask({})"),
    ("rows=True", "batch.attention_mask({}).to(model.dtype).log()"),
    ("rows=True", "batch.valid_BT.long()"),
)
"""Options of `Batch.transformers` and the attention mask, cheapest first; the last is for buckets.

The logarithm of a mask is 0 where attention is allowed, and minus infinity elsewhere.
"""
Calls = list[tuple[str, str]]
"""Calls, each with the reason why it cannot be tried, or ""."""
BUCKETS, SINGLE = (f'  # in batches of packer="{name}"' for name in ("bucket", "single"))


@dataclass(frozen=True, slots=True)
class Form:
    """A way to call a model on a batch; ``str(form)`` says also what was tried."""

    call: str
    """The call, as code with `model` and `batch`."""
    longest: int | None
    """Longest sequence for which it is known to hold; None for any length."""
    trials: Mapping[str, str]
    """Calls that were tried, cheapest first, each with the reason why it does not hold, or ""."""

    def __str__(self) -> str:
        limit = "" if self.longest is None else f"\nfor sequences of up to {self.longest:,}"
        reasons = [f"not {call}: {reason}" for call, reason in self.trials.items() if reason]
        return "\n".join([self.call + limit, *reasons])


def find_form(
    model: nn.Module, batch: Batch | None = None, *, copy: bool = True, every: bool = False
) -> Form:
    """Find the cheapest form in which each sequence has the outputs that it has alone.

        print(find_form(model, batch))  # once, before training

    *Alone* is the model's own call on one sequence, without any argument of ours. A model of
    transformers is tried as a small copy made from its config: in float32, with large random
    weights, and with windows and chunks shorter than the texts, which are made up. A form whose
    kernels are not installed is "untried here" and never chosen. If no form holds, the call is for
    batches of ``packer="bucket"``, or of ``packer="single"``, one sequence each. The model, its
    buffers, its modes and the random state are left as they are.

    Args:
        model: a model of transformers that takes ``input_ids``, also on the device "meta"; an
            `nn.RNNBase`, `nn.TransformerEncoder`, `nn.TransformerEncoderLayer` or
            `nn.MultiheadAttention`; a module for `walk`; or any module that takes and returns a
            tensor ``(B, T, ...)``.
        batch: batch with two sequences in a block, on the model's device; not needed for a copy of
            a model of transformers.
        copy: False tries the model itself, with its weights, dtype and windows.
        every: try all forms, not only those up to the first that holds.

    Raises:
        InputError: there is no batch, or the model does not run on one sequence.
    """
    device = next(model.parameters(), torch.zeros(0)).device
    device = torch.get_default_device() if device.type == "meta" else device
    is_text = hasattr(model, "config") and "input_ids" in signature(model.forward).parameters
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(0)
        if copy and is_text:
            tried, batch, longest = _text_trial(model, device)
        elif batch is None or not isinstance(batch.inputs_BT, Tensor):
            raise InputError(
                f"a {type(model).__name__} needs a batch to be tried on, whose inputs are one "
                "tensor; give find_form(model, next(iter(loader)))"
            )
        else:
            shared = {} if copy else {id(weights): weights for weights in model.parameters()}
            tried, longest = deepcopy(model, shared).eval(), batch.max_seqlen
            if copy:
                draw_weights(tried.float())
                if batch.inputs_BT.is_floating_point():
                    batch = replace(batch, inputs_BT=batch.inputs_BT.float())
        alone, calls = (_text_calls if is_text else _module_calls)(tried)
        return _try_calls(tried, batch, alone, calls, longest, every)


def _try_calls(
    model: nn.Module, batch: Batch, alone: str, calls: Calls, longest: int | None, every: bool
) -> Form:
    sequences = batch.inputs_BT[batch.valid_BT].split(batch.segments.length_S.tolist())
    trials: dict[str, str] = {}
    try:
        _run(alone, model, sequence=sequences[0])
    except Exception as error:
        raise InputError(f"{alone} fails: {_in_one_line(error)}; give a model that runs") from error
    for call, missing in calls:
        tried = batch
        if call.endswith(BUCKETS):
            rows = [[sequence] for sequence in sorted(sequences, key=len)]
            tried = _make_batch(rows, batch.max_seqlen)
        trials[call] = missing or _fault(model, call, alone, tried)
        if not (trials[call] or every):
            break
    single = alone.replace("sequence[None]", "batch.inputs_BT")
    single = single.replace("sequence", "batch.inputs_BT[0]") + SINGLE
    holding = [call for call, fault in trials.items() if not fault]
    return Form([*holding, single][0], longest, trials)


def _fault(model: nn.Module, call: str, alone: str, batch: Batch) -> str:
    """Return the reason why a form does not hold, or ""."""
    if hasattr(model, "config"):  # labels that no head refuses, and that cost nothing
        labels_BT = torch.full_like(batch.inputs_BT, -100, dtype=torch.long)
        batch = replace(batch, targets_BT=labels_BT, targets=(), targets_S=None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_boundaries(
                lambda batch: _run(call, model, batch),
                batch,
                alone=lambda sequence: _run(alone, model, sequence=sequence),
            )
    except Exception as error:  # models refuse a form by exceptions of any kind
        return _in_one_line(error)
    return ""


def _run(call: str, model: nn.Module, batch: Batch | None = None, **names: Any) -> Tensor:
    """Run a call exactly as it is printed; return the main output, ``(B, T, ...)``.

    The call is one of this file's. One row is put back into blocks; without a batch, the output is
    that of one sequence, without B.
    """
    outputs = eval(call, {"model": model, "batch": batch, "walk": walk, "torch": torch, **names})
    if isinstance(outputs, dict):
        outputs = [value for key, value in outputs.items() if "loss" not in key]
    values: Tensor = outputs if isinstance(outputs, Tensor) else outputs[0]
    if batch is None:
        return values[0] if "[None]" in call else values
    if values.shape[:2] != (1, int(batch.valid_BT.sum())):
        return values
    values_BT = values.new_zeros(*batch.valid_BT.shape, *values.shape[2:])
    values_BT[batch.valid_BT] = values[0]
    return values_BT


def _in_one_line(error: Exception) -> str:
    """Return what an error says, in one line; the check's advice is for one form."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError):
        return text.split(": ")[0]
    return f"{type(error).__name__}: {text[:200]}"


def _make_batch(texts: Sequence[Sequence[Tensor]], t_max: int) -> Batch:
    """Return a batch of texts, block by block."""
    samples: list[BlockSample] = []
    for row in texts:
        length_S = np.array([len(text) for text in row])
        number_S = np.arange(len(row)) + sum(len(sample.inputs) for sample in samples)
        block = Block(0, t_max, number_S, 0 * length_S, length_S)
        samples.append(BlockSample(block, row, [None] * len(row), (row[0][:0], None)))
    return collate_blocks(samples).to(texts[0][0].device)


def _module_calls(model: Any) -> tuple[str, Calls]:
    """Return the call alone and the calls in blocks of a module of torch, or of one for `walk`."""
    heads = [part.num_heads for part in model.modules() if hasattr(part, "num_heads")]
    mask = f"~batch.attention_mask(False).expand(-1, {[*heads, 1][0]}, -1, -1).flatten(0, 1)"
    alone, calls = "model(sequence[None])", ["model(batch.inputs_BT)"]
    if hasattr(model, "init_state"):
        alone = "walk(model, sequence[None], torch.arange(len(sequence))[None] == 0)[0]"
        calls = ["walk(model, batch.inputs_BT, batch.start_BT)[0]"]
    elif isinstance(model, nn.MultiheadAttention):
        alone = "model(sequence, sequence, sequence)"
        calls = [f"model(*3 * [batch.inputs_BT], attn_mask={mask})[0]"]
    elif isinstance(model, nn.RNNBase):
        alone = "model(sequence)"
        calls.append("batch.from_packed(model(batch.to_packed(batch.inputs_BT))[0])")
    elif isinstance(model, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        alone = "model(sequence)"
        calls.append(f"model(batch.inputs_BT, {mask})")
    return alone, [(call, "") for call in calls]


def _text_trial(model: Any, device: torch.device) -> tuple[nn.Module, Batch, int | None]:
    """Return a small copy of a model, a batch of texts for it, and its longest text."""
    if "decoder_input_ids" in signature(model.forward).parameters:
        raise InputError(
            f"a {type(model).__name__} reads one text and writes another, of two lengths; give "
            "its encoder, model.get_encoder(), or its decoder, model.get_decoder()"
        )
    settings = model.config.get_text_config()
    tokens = min(getattr(settings, "vocab_size", None) or 256, 256)
    rows = [[torch.randint(SMALL, tokens, (n,), device=device) for n in row] for row in LENGTHS]
    copy = small_copy(model, rows[-1][1][None])
    names = ["n_positions", "max_position_embeddings"]
    if "longrope" in str(vars(settings)):  # a longer text changes the positions of its neighbours
        names.append("original_max_position_embeddings")
    tables = [getattr(settings, name, None) or 0 for name in names]
    longest = min((table for table in tables if table > 0), default=None)
    return copy, _make_batch(rows, 48), longest and longest - _first_position(copy)


def _first_position(model: nn.Module) -> int:
    """Return the position of a first token: some tables begin after that of padding."""
    device = next(model.parameters()).device
    text = torch.arange(SMALL, SMALL + 8, device=device)[None]
    usual = _run("model(input_ids=text)", model, text=text)
    tables = [part for name, part in model.named_modules() if "position" in name]
    padding = {getattr(table, "padding_idx", None) for table in tables}
    if "position_ids" not in signature(model.forward).parameters:
        return 0
    for first in (index + 1 for index in padding if index is not None):
        positions = torch.arange(first, first + 8, device=device)[None]
        outputs = _run("model(input_ids=text, position_ids=p)", model, text=text, p=positions)
        if torch.allclose(outputs, usual, atol=1e-3):
            return int(first)
    return 0


def has_kernel(name: str, device: torch.device) -> bool:
    """Return True if a package is installed whose kernels run on the device."""
    return device.type != "cpu" and find_spec(name) is not None


def named_kernels(model: nn.Module) -> list[str]:
    """Return those of `KERNELS` that the source of a model or of its parts names."""
    modules = {type(part).__module__ for part in model.modules()} - {"__main__"}
    sources = [getsource(sys.modules[name]) for name in modules if not name.startswith("torch.")]
    return [name for name in KERNELS if re.search(rf"\b{name}\b", "\n".join(sources))]


def _text_calls(model: Any) -> tuple[str, Calls]:
    """Return the call alone and the calls in blocks of a model of transformers."""
    alone = "model(input_ids=sequence[None])"
    parameters = signature(type(model).forward).parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    keys = [key for key in ("input_ids", "labels", "position_ids") if key in parameters]
    device = next(model.parameters()).device
    kernels = named_kernels(model)
    missing = [name for name in kernels if not has_kernel(name, device)]
    wanted = f"without {' and '.join(missing)} on a GPU" if missing else ""
    attention = str(getattr(model.config, "_attn_implementation", ""))
    has_flash = getattr(model, "_supports_flash_attn", False)
    if not kernels and has_flash and "flash" not in attention:
        wanted = f"without flash attention; this is {attention}"
    text = torch.arange(SMALL, SMALL + 8, device=device)
    whole, part = (_run(alone, model, sequence=tokens).float() for tokens in (text, text[:4]))
    is_causal = whole.shape[0] == 8 and torch.allclose(whole[:4], part, atol=1e-3)
    first = _first_position(model)
    is_cached = "use_cache" in parameters or (takes_all and is_causal)
    configs = model.config, model.config.get_text_config()
    is_cached &= any(getattr(config, "use_cache", False) for config in configs)

    calls = []
    for options, mask in TEXT_FORMS:
        needs = "flash|seq_idx" if missing else "flash"
        untried = f"untried here, {wanted}" if wanted and re.search(needs, options) else ""
        if first:
            options += f", first_position={first}" if options else f"first_position={first}"
        inputs = f"batch.transformers({options})"
        inputs = f"**{inputs}" if takes_all else ", ".join(f"{k}={inputs}[{k!r}]" for k in keys)
        if mask:
            inputs += f", attention_mask={mask.format('' if is_causal else 'causal=False')}"
        if is_cached:
            inputs += ", use_cache=False"
        note = BUCKETS if "valid" in mask else ""
        calls.append((f"model({inputs}){note}", untried))
    return alone, calls
