"""Fourteen architectures are called in the form that each obeys; ``python FILE``."""

import contextlib
import io
import re
import tempfile
from pathlib import Path

import torch
import transformers

from bload import BlockLoader, find_form, from_dataset
from bload.__main__ import main

ROWS = "model(**batch.transformers(rows=True)"
CAUSAL = f"{ROWS}, attention_mask=batch.attention_mask()"
ADDED = f"{CAUSAL}.to(model.dtype).log(), use_cache=False)"
BOTH_WAYS = "attention_mask=batch.attention_mask(causal=False)"
BUCKETS = f"{ROWS}, attention_mask=batch.valid_BT.long()"
NOTE = '  # in batches of packer="bucket"'
FORMS = {
    "LlamaForCausalLM": (f"{ROWS}, use_cache=False)", 2048),
    "MistralForCausalLM": (f"{ROWS}, use_cache=False)", 131072),  # has a window
    "OPTForCausalLM": (f"{CAUSAL}, use_cache=False)", 2048),
    "XGLMForCausalLM": (ADDED, 2048),
    "GptOssForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", 131072),
    "BloomForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", None),
    "BartForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", 1024),
    "Mamba2ForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", None),
    "FalconH1ForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", 8192),
    "Qwen3NextForCausalLM": (f"{BUCKETS}, use_cache=False){NOTE}", 32768),
    "BertForMaskedLM": (f"{ROWS}, {BOTH_WAYS})", 512),
    "RobertaForMaskedLM": (f"{ROWS[:-1]}, first_position=2), {BOTH_WAYS})", 510),
    "ModernBertForMaskedLM": (f"{BUCKETS}){NOTE}", 8192),
    "FNetForMaskedLM": ('model(input_ids=batch.inputs_BT)  # in batches of packer="single"', 512),
}
"""Call and longest text, each read in the source of transformers 5."""
UNTRIED = {
    "LlamaForCausalLM": set(),
    "Mamba2ForCausalLM": {"causal_conv1d", "mamba_ssm"},
    "FalconH1ForCausalLM": {"causal_conv1d", "mamba_ssm"},
    "Qwen3NextForCausalLM": {"causal_conv1d", "fla"},
}
"""Kernels that are missing on a CPU."""

transformers.logging.set_verbosity_error()
for name, (call, longest) in FORMS.items():
    kind = getattr(transformers, name)
    with torch.device("meta"):
        model = kind(kind.config_class())
    form = find_form(model)
    assert (form.call, form.longest) == (call, longest), f"{name}: {form}"
    if name in UNTRIED:
        untried = " ".join(reason for reason in form.trials.values() if "untried" in reason)
        kernels = {kernel for kernel in ("causal_conv1d", "mamba_ssm", "fla") if kernel in untried}
        assert kernels == UNTRIED[name], str(form)

# The cache of a model with a text part is set in the config of that part.
sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 97}
text_part = {"model_type": "mistral", "sliding_window": 8, "num_hidden_layers": 2, **sizes}
text_part |= {"num_key_value_heads": 2, "head_dim": 8}
pictures = {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 32}
pictures |= {"num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
config = transformers.LlavaConfig(
    text_config=text_part, vision_config=pictures, image_token_index=90
)
form = find_form(transformers.LlavaForConditionalGeneration(config))
assert form.call == f"{ROWS}, use_cache=False)", form

# From a config alone.
with tempfile.TemporaryDirectory() as folder:
    transformers.OPTConfig(architectures=["OPTForCausalLM"]).save_pretrained(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["form", f"{folder}/config.json"]) == 0
    assert printed.getvalue().startswith(FORMS["OPTForCausalLM"][0])
    assert main(["form", f"{folder}/nothing.json"]) == 2
    transformers.GPT2Config(n_layer=1).save_pretrained(folder)  # names no class
    assert main(["form", folder]) == 0
    transformers.AlbertConfig().save_pretrained(folder)  # names no class, and has no ...ForCausalLM
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert main(["form", folder]) == 2
    assert '"architectures"' in said.getvalue()

# A small model with its own weights, which are left as they are.
sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 40}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_hidden_layers=2))
weights = {key: value.clone() for key, value in model.state_dict().items()}
model.train()
text = torch.arange(6, 26)
source = from_dataset([text, text + 9], length=len)
(batch,) = BlockLoader(source, t_max=40)
form = find_form(model, batch, copy=False)
assert form.call == FORMS["LlamaForCausalLM"][0]
assert form.longest == 20
assert model.training
assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())

# The loop of the page.
page = (Path(__file__).parents[2] / "docs/models.md").read_text()
texts, optimiser = [text, text[:7], text + 9], torch.optim.SGD(model.parameters(), 0.1)
exec("\n".join(re.findall("```python\n(.*?)```", page, re.DOTALL)))
assert not any(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
