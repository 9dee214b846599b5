"""Small copies of models of transformers, with random weights that show which texts mix."""

import math
import re
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from bload.errors import InputError

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


def draw_weights(model: nn.Module) -> nn.Module:
    """Draw matrices from N(0, 0.2): the weights of a new model are too small to show what mixes."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.2)
    return model


def small_copy(model: Any, text: Tensor) -> nn.Module:
    """Make a small model in float32 from the config of a model of transformers.

    Windows and chunks have `SMALL` tokens, each type of layer occurs twice, and widths and numbers
    of heads are divided by a common factor, as far as the model runs on the text, ``(1, n)``.

    Raises:
        InputError: the model runs in none of the sizes.
    """
    for parts in TRIES:
        config = deepcopy(model.config)
        try:
            inner = [value for value in vars(config).values() if hasattr(value, "to_dict")]
            for config_part in (config, *inner):
                _shrink(config_part, parts)
            with torch.device("meta"):
                size = sum(weights.numel() for weights in type(model)(config).parameters())
            if size > MAX_WEIGHTS:
                raise InputError(f"it has {size:,} weights")
            copy = draw_weights(type(model)(config).to(text.device).float().eval())
            copy(input_ids=text)
        except Exception as error:  # only the model knows which sizes it accepts
            fault = f"{type(error).__name__}: {error}"
        else:
            return copy
    raise InputError(f"no small copy of the model runs ({fault}); try the model, by copy=False")


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
