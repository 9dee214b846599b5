"""Models: in which form do models of transformers keep the texts of a block apart?

    python -m experiments.models --measure   # some hours on one core; resumes if stopped
    python -m experiments.models             # the tables of docs/models.md

Every text model that transformers has for the next or for masked tokens is made small from its
default config, and all forms of `bload.FORMS` are tried. Kernels that are not installed
(flash-attn, causal-conv1d, mamba-ssm, flash-linear-attention) are replaced by their definition:
each text of a row is computed alone. Rows measured with another version are measured again. A model
that takes more than ten minutes of a core or 4 GB is refused.

A small model has large random weights, in float32, and windows and chunks of `SMALL` tokens, so
that it shows which texts mix. Each type of layer occurs twice, and widths and numbers of heads are
divided by a common factor.
"""

import argparse
import csv
import inspect
import math
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial, wraps
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bload import FORMS, Batch, BlockLoader, InputError, check_boundaries, from_dataset

FILE = Path(__file__).parents[1] / "results" / "models.csv"
COLUMNS = (
    "rows=True",
    "flash_attn=True",
    "rows=True, seq_idx=True",
    "flash_attn=True, seq_idx=True",
    "one row",
    "bool mask",
    "additive mask",
    "buckets",
)
KERNELS = {
    "causal_conv1d_fn": "seq_idx",
    "mamba_chunk_scan_combined": "seq_idx",
    "mamba_split_conv1d_scan_combined": "seq_idx",
    "chunk_gated_delta_rule": "cu_seqlens",
    "chunk_kda": "cu_seqlens",
}
"""Kernels that keep texts apart, and the argument by which they do."""
PACKAGES = ("causal_conv1d", "mamba_ssm", "fla")
"""Packages of these kernels."""
ATTENTIONS = ("sdpa", "eager", "flash_attention_2", "kernels")
"""Attention of the model; "kernels" is the default one, with the kernels of other layers."""
UNTRIED = "untried here"
LENGTHS = (20, 22, 9, 30, 7)
"""Lengths of the texts."""
SMALL = 6
"""Window, chunk and largest special token of a copy."""
MAX_WEIGHTS = 250_000_000
"""Largest number of weights of a copy."""
TRIES = ("layers and widths", "widths", "layers")
"""What is made small, in the order of attempts."""
LAYERS = re.compile(r"^(num|n|encoder|decoder)_(hidden_|encoder_|decoder_)?layers?$|^num_blocks$")
PERIODS = re.compile(r"period|interval|_pattern$|every_n|offset|first_k_dense")
HEADS = re.compile(r"(?<!index_n)(?<!_d)_heads?$|^n_heads?$|n_?groups$")
MAIN_WIDTHS = re.compile(
    r"hidden_(size|dim)$|^(n_embd|d_model|dim|emb\w*_dim|d_inner)$|lru_w|d_ssm"
)
WIDTHS = re.compile(
    MAIN_WIDTHS.pattern + r"|intermediate|feed_forward|ffn|inner|dff|dim_ff|embedding_size|proj_dim"
)
WINDOWS = re.compile(r"window(?!_layers)|chunk_?(size$|len)|^local_attention$")
CONFIGS: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1], "num_hidden_layers": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 16},
    "deepseek_v2": {"num_experts_per_tok": 2, "moe_intermediate_size": 1408},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "mimo_v2_flash": {"num_key_value_heads": 1},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"n_mamba_heads": 16},
}
"""Settings without which a default config makes no model, or none with layers of all types."""


def apart(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel's definition: `function` on each text alone, if the kernel can do so."""
    axis = -1 if "conv1d_fn" in name else 1

    @wraps(function)
    def kernel(inputs: Tensor, *args: Any, **options: Any) -> Any:
        marks = {key: options.pop(key, None) for key in ("seq_idx", "cu_seqlens")}
        marks_BT = marks.get(KERNELS.get(name, ""))
        if marks_BT is None:
            return function(inputs, *args, **options)
        batch, length = inputs.shape[0], inputs.shape[axis]
        numbers = torch.arange(length, device=inputs.device)
        if marks_BT is marks["cu_seqlens"]:
            marks_BT = torch.bucketize(numbers, marks_BT[1:], right=True)[None]

        def cut(row: int, slots: Tensor, value: Any) -> Any:
            is_by_slot = isinstance(value, Tensor) and value.dim() > 2
            if is_by_slot and (value.shape[0], value.shape[axis]) == (batch, length):
                return value[[row]].index_select(axis, slots)
            return value

        rows = []
        for row, marks_T in enumerate(marks_BT):
            _, counts = marks_T.unique_consecutive(return_counts=True)
            parts = [
                pytree.tree_map(partial(cut, row, slots), ((inputs, *args), options))
                for slots in numbers.split(counts.tolist())
            ]
            pieces = [function(*args, **options) for args, options in parts]
            rows.append(torch.cat([p[0] if isinstance(p, tuple) else p for p in pieces], axis))
        outputs = torch.cat(rows)
        return (outputs, pieces[-1][1]) if isinstance(pieces[-1], tuple) else outputs

    return kernel


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    **_: Any,
) -> Tensor:
    """Compute attention of texts ``(F, heads, width)`` as flash-attn defines it."""
    left, right = window_size[0], 0 if causal else window_size[1]
    k, v = (values.repeat_interleave(q.shape[1] // k.shape[1], 1) for values in (k, v))
    slots = torch.arange(len(q), device=q.device)
    text = torch.bucketize(slots, cu_seqlens_q[1:], right=True)
    ahead = slots - slots[:, None]
    hidden = (text != text[:, None]) | (ahead > (right if right >= 0 else len(q)))
    hidden |= ahead < -(left if left >= 0 else len(q))
    scores = torch.einsum("qhd,khd->hqk", q, k) * (softmax_scale or q.shape[-1] ** -0.5)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, v).contiguous()


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Compute the same for rows ``(B, T, heads, width)``."""
    ends = torch.arange(len(q) + 1, device=q.device) * q.shape[1]
    q_N, k_N, v_N = (values.flatten(0, 1) for values in (q, k, v))
    outputs_N = flash_attn_varlen_func(q_N, k_N, v_N, ends, **options)
    return outputs_N.view(*q.shape[:3], -1)


def define_kernels() -> None:
    """Replace the kernels that transformers looks for; before its models are imported."""
    from transformers import PreTrainedModel, integrations
    from transformers import modeling_flash_attention_utils as flash
    from transformers.integrations import hub_kernels

    def use_definition(name: str, *_: Any, **__: Any) -> Callable[..., Any]:
        return partial(apart, name)

    def load_flash(*_: Any, **__: Any) -> tuple[Any, ...]:
        return flash_attn_func, flash_attn_varlen_func, None, flash._pad_input, flash._unpad_input

    check = PreTrainedModel._check_and_adjust_attn_implementation

    def accept_flash(self: Any, name: str | None, *args: Any, **options: Any) -> str:
        if name != "flash_attention_2":
            return check(self, name, *args, **options)
        if not self._supports_flash_attn:
            raise ValueError("not offered")
        flash.lazy_import_flash_attention(name)
        return name

    for module in (integrations, hub_kernels):
        module.use_kernel_func_from_hub_with_fallback = use_definition
    flash._lazy_imports = load_flash
    PreTrainedModel._check_and_adjust_attn_implementation = accept_flash


def architectures() -> Iterator[tuple[str, str]]:
    """Yield model types with the class that predicts the next or the masked token."""
    from transformers.models.auto import modeling_auto as auto

    masked = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    for name, kind in sorted({**masked, **auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}.items()):
        other = masked.get(name, "ConditionalGeneration")
        yield name, kind if "ConditionalGeneration" in other else other


def measure() -> None:
    """Add a row for each model and attention that the file lacks."""
    import transformers

    define_kernels()
    signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30, -1))
    transformers.logging.set_verbosity_error()
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    rows = [*csv.DictReader(FILE.open(newline=""))] if FILE.exists() else []
    rows = [row for row in rows if row["transformers"] == versions["transformers"]]
    measured = {(row["architecture"], row["attention"]) for row in rows}
    for attention, (name, kind) in product(ATTENTIONS, architectures()):
        if (name, attention) in measured:
            continue
        row = {"architecture": name, "model": kind, "attention": attention} | versions
        if not (cells := try_forms(name, kind, attention)):
            continue
        rows.append(row | cells)
        with FILE.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*row, "refusal", *COLUMNS])
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda row: (row["architecture"], row["attention"])))
        print(*rows[-1].values(), flush=True)


def stop(*_: Any) -> None:
    """End a trial; not by an `Exception`, which would pass as a form's fault."""
    raise SystemExit("takes more than ten minutes of a core")


def try_forms(name: str, kind: str, attention: str) -> dict[str, str]:
    """Return the result of each form: "yes", a difference in standard deviations, or an error."""
    import transformers

    try:
        config = transformers.CONFIG_MAPPING[name](**CONFIGS.get(name, {}))
        model = getattr(transformers, kind)
        if not isinstance(config, model.config_class):
            config = config.get_text_config(decoder=True)
        source = inspect.getsource(sys.modules[model.__module__])
        if attention == "kernels" and not any(kernel in source for kernel in KERNELS):
            return {}
        settings = vars(config)
        if settings.get("use_sliding_window", True) and settings.get("sliding_window", 0) is None:
            config.sliding_window = 4096
        default = "sdpa" if model._supports_sdpa else "eager"
        config._attn_implementation = default if attention == "kernels" else attention
        signal.setitimer(signal.ITIMER_PROF, 600)
        torch.manual_seed(0)
        with torch.no_grad():
            return try_columns(small_copy(model, config), attention)
    except (Exception, SystemExit) as error:
        return {"refusal": " ".join(str(error).split())[:200]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def try_columns(model: Any, attention: str) -> dict[str, str]:
    """Return the results of a small model."""
    modules = {type(part).__module__ for part in model.modules()}
    sources = [inspect.getsource(sys.modules[m]) for m in modules if not m.startswith("torch.")]
    has_kernels = any(re.search(rf"\b{name}\b", "\n".join(sources)) for name in PACKAGES)
    untried = "$^"  # nothing
    if has_kernels and attention not in ("flash_attention_2", "kernels"):
        untried = "flash|seq_idx"
    elif not has_kernels and model._supports_flash_attn and attention != "flash_attention_2":
        untried = "flash"
    tokens = min(getattr(model.config.get_text_config(), "vocab_size", None) or 256, 256)
    texts = [torch.randint(SMALL, tokens, (length,)) for length in LENGTHS]
    source = from_dataset(texts, len)
    (packed,) = BlockLoader(source, t_max=48, batch_slots=96)
    (buckets,) = BlockLoader(source, "naive", batch_slots=max(LENGTHS) * len(LENGTHS))

    def alone(text: Tensor) -> Tensor:
        values: Tensor = model(input_ids=text[None])[0][0]
        return values

    whole, part = alone(texts[0]).float(), alone(texts[0][:4]).float()
    is_causal = len(whole) == LENGTHS[0] and torch.allclose(whole[:4], part, atol=1e-3)
    end = "" if is_causal else ", causal=False"
    forms: dict[str, Callable[..., Tensor]] = {name: FORMS[name] for name in COLUMNS[:4]}
    forms["one row"] = partial(forms["rows=True"], rows=False)
    forms |= {name: FORMS[name + end] for name in ("bool mask", "additive mask")}
    forms["buckets"] = FORMS["padding mask"]
    cells = {}
    for name, form in forms.items():
        batch = buckets if name == "buckets" else packed
        is_tried = not re.search(untried, name)
        cells[name] = result(partial(form, model), batch, alone) if is_tried else UNTRIED
    return cells


def result(run: Callable[[Batch], Tensor], batch: Batch, alone: Callable[..., Tensor]) -> str:
    """Return "yes" if a form holds, else the difference, or the kind of the error."""
    try:
        check_boundaries(run, batch, alone=alone)
    except InputError as error:
        size = re.search(r"by ([\d.e+-]+) of its spread", str(error))
        return size[1] if size else str(error).split(",")[0].split(":")[0]
    except Exception as error:  # models refuse a form by exceptions of any kind
        return type(error).__name__
    return "yes"


def small_copy(kind: Any, config: Any) -> nn.Module:
    """Make a small model, by the first of `TRIES` in which it runs.

    Its matrices are drawn from N(0, 0.2): those of a new model are too small to show what mixes.
    """
    for parts in TRIES:
        small = deepcopy(config)
        try:
            inner = [value for value in vars(small).values() if hasattr(value, "to_dict")]
            for config_part in (small, *inner):
                _shrink(config_part, parts)
            with torch.device("meta"):
                size = sum(weights.numel() for weights in kind(small).parameters())
            if size > MAX_WEIGHTS:
                raise InputError(f"it has {size:,} weights")
            model: nn.Module = kind(small).float().eval()
            for weights in model.parameters():
                if weights.dim() > 1:
                    weights.normal_(0, 0.2)
            model(input_ids=torch.arange(SMALL, SMALL + 8)[None])
        except Exception as error:  # only the model knows which sizes it accepts
            fault = f"{type(error).__name__}: {error}"
        else:
            return model
    raise InputError(f"no small copy of the model runs ({fault})")


def _shrink(config: Any, parts: str) -> None:
    values = {key: value for key, value in vars(config).items() if type(value) in (int, list)}
    large = {key: value for key, value in values.items() if type(value) is int and value > 1}
    for key in filter(WINDOWS.search, values):
        value = values[key]
        small = [SMALL] * len(value) if type(value) is list else min(value, SMALL)
        setattr(config, key, small)
    if "layers" in parts:
        _drop_layers(config, values, large)
    if "widths" in parts:
        _divide_widths(config, large)


def _drop_layers(config: Any, values: dict[str, Any], large: dict[str, int]) -> None:
    """Keep two layers of each type."""
    periods = [key for key in large if PERIODS.search(key)]
    for key in periods:
        setattr(config, key, 1 if re.search("offset|dense", key) else 2)
    for name in filter(LAYERS.search, large):
        count = large[name]
        lists = {key: value for key, value in values.items() if type(value) is list}
        patterns = [len(lists[key]) for key in lists if key.endswith("types")]
        least = 4 if periods else min([n for n in patterns if n < count], default=2)
        lists = {key: value for key, value in lists.items() if len(value) == count}
        typed = [value for value in lists.values() if len({*map(str, value)}) < count]
        types = [str(layer) for layer in zip(*typed, strict=True)]
        first = {layer for layer, kind in enumerate(types) if types[:layer].count(kind) < 2}
        spare = [layer for layer in range(count) if layer not in first]
        kept = sorted([*first, *spare[: max(0, least - len(first))]])
        for key in (key for key in values if key.endswith(("layer_ids", "layer_indices"))):
            setattr(config, key, [kept.index(layer) for layer in values[key] if layer in kept])
        for key, value in lists.items():
            few = [value[layer] for layer in kept] if value in typed else [*range(len(kept))]
            setattr(config, key, few)
        setattr(config, name, len(kept))


def _divide_widths(config: Any, large: dict[str, int]) -> None:
    """Divide widths and numbers of heads by a common factor; keep few tokens and experts."""
    shared = [key for key in filter(HEADS.search, large) if re.search("key_value|kv_", key)]
    heads = [large[key] for key in filter(HEADS.search, large) if key not in shared]
    widths = [large[key] for key in filter(MAIN_WIDTHS.search, large)]
    common = math.gcd(*heads, *(width // 8 for width in widths))
    factors = [n for n in range(1, common + 1) if common % n == 0 and min(widths) >= 64 * n]
    keeps_two = [n for n in factors if min(heads, default=2 * n) >= 2 * n]
    factor = max(keeps_two if len(keeps_two) > 1 else factors, default=1)
    for key, value in large.items():
        if key.endswith("token_id"):
            setattr(config, key, min(value, SMALL - 1))
        elif key.startswith("vocab_size"):
            setattr(config, key, min(value, 256))
        elif key.endswith("experts"):
            setattr(config, key, min(value, 16))
        elif key in shared:
            setattr(config, key, math.gcd(value, *(n // factor for n in heads)))
        elif HEADS.search(key) or (WIDTHS.search(key) and value % (8 * factor) == 0):
            setattr(config, key, value // factor)
        elif "intermediate_size" in key:
            setattr(config, key, max(value // factor // 8, 1) * 8)


def page() -> str:
    """Return the table of docs/models.md, a row per answer, and how many models it holds."""
    rows = pd.read_csv(FILE, dtype=str, keep_default_na=False)
    holds = rows[[*COLUMNS]] == "yes"
    rows["form"] = holds.idxmax(axis=1).where(holds.any(axis=1), "")
    tried = rows[rows["refusal"] == ""]
    names = sorted({*tried.loc[tried["attention"].isin(["sdpa", "eager"]), "architecture"]})
    forms = rows.pivot(index="architecture", columns="attention", values="form")
    answers: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        sdpa, eager, flash, kernels = forms.loc[name, [*ATTENTIONS]].fillna("")
        cpu = sdpa or eager or "one text at a time"
        if sdpa and eager not in ("", sdpa):
            cpu += f"; eager: {eager}"
        gpu = next((form for form in COLUMNS[:4] if form in (flash, kernels) and form != sdpa), "")
        if pd.isna(forms.loc[name, "flash_attention_2"]):
            gpu = "not measured"
        answers.setdefault((cpu, gpu), []).append(name)
    cells = [
        [len(alike), ", ".join(alike), *answer]
        for answer, alike in sorted(answers.items(), key=lambda item: -len(item[1]))
    ]
    heads = ["", "models", "on a CPU", "on a GPU"]
    count = int((tried[[*COLUMNS]] != UNTRIED).sum().sum())
    versions = ("transformers " + rows["transformers"] + ", torch " + rows["torch"]).unique()
    refused = sorted({*rows.loc[rows["attention"] == "eager", "architecture"]} - {*names})
    return "\n\n".join(
        [
            f"{len(names)} architectures; {count:,} forms were tried, with {'; '.join(versions)}:",
            tabulate(cells, heads, "pipe"),
            f"No small model can be made of {len(refused)} architectures "
            f"([reasons](../results/models.csv)): {', '.join(refused)}.",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m experiments.models", None, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--measure", action="store_true", help="try forms, and write the rows")
    if parser.parse_args().measure:
        measure()
    else:
        from experiments.study import publish  # needs more than transformers

        publish("models", page(), committed=True, document=FILE.parents[1] / "docs/models.md")
