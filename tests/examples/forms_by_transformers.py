"""Architectures are called in the form that each obeys; the page's loop runs. ``python FILE``."""

import contextlib
import re
import runpy
import sys
from pathlib import Path

import torch
import transformers

from bload import BlockLoader, InputError, from_dataset

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
find_form = runpy.run_path(str(ROOT / "examples/forms.py"))["find_form"]

EXPECTED = {
    "LlamaForCausalLM": "rows=True",
    "OPTForCausalLM": "bool mask",
    "XGLMForCausalLM": "additive mask",
    "BloomForCausalLM": "",
    "Mamba2ForCausalLM": "",
    "BertForMaskedLM": "bool mask, causal=False",
    "RobertaForMaskedLM": "bool mask, causal=False",
}
"""Form in blocks, read in the source of transformers 5; none for those that need buckets."""
SIZES = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 97, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "d_model": 32, "ffn_dim": 48, "attention_heads": 4}
SIZES |= {"num_layers": 2, "n_head": 4, "n_layer": 2, "word_embed_proj_dim": 32}
SIZES |= {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 16}

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
texts = [torch.randint(6, 97, (length,)) for length in (20, 22, 9, 30, 7)]
source = from_dataset(texts, length=len)
(packed,) = BlockLoader(source, t_max=48, batch_slots=96)
(buckets,) = BlockLoader(source, "naive", batch_slots=150)
for name, form in EXPECTED.items():
    kind = getattr(transformers, name)
    known = {key: size for key, size in SIZES.items() if hasattr(kind.config_class(), key)}
    model = kind(kind.config_class(**known))
    if form:
        assert find_form(model, packed) == form, name
        continue
    with contextlib.suppress(InputError):
        raise AssertionError(f"{name}: {find_form(model, packed)}")
    assert find_form(model, buckets) in ("inputs", "rows=True", "padding mask"), name

# The loop of the page, which trains the model that was searched.
page = (ROOT / "docs/models.md").read_text()
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
weights = {key: value.clone() for key, value in model.state_dict().items()}
model.train()
optimiser = torch.optim.SGD(model.parameters(), 0.1)
exec("\n".join(re.findall("```python\n(.*?)```", page, re.DOTALL)))
assert model.training
assert not any(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
