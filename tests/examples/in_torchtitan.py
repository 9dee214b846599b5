"""Run torchtitan's training on CPUs: ``FILE ARGUMENTS``; rank r writes to FILE.r what it trains."""

# ruff: noqa: E402, SIM115
import json
import os
import sys
from unittest.mock import Mock

import torch
import torch.nn.attention.flex_attention as flex

torch._utils._get_available_device_type = lambda: "cpu"  # torchtitan asks when imported
from torchtitan import train
from torchtitan.components import metrics
from torchtitan.distributed import utils
from torchtitan.models.common import attention

file = open(f"{sys.argv.pop(1)}.{os.environ['RANK']}", "w")
process = train.Trainer.post_dataloading_process


def split(values_BT, positions_BT):
    """Return the parts of all rows that begin at a position of 0."""
    rows = zip(values_BT, positions_BT == 0, strict=True)
    return [part for row, begins in rows for part in row.tensor_split(begins.nonzero()[1:, 0])]


@torch.no_grad()
def compare_with_texts_alone(trainer, inputs, labels, options):
    model, positions = trainer.model_parts[0], options["positions"]
    parts = (split(values, positions) for values in (inputs, labels, model(inputs, **options)))
    for text, label, output in zip(*parts, strict=True):
        assert label.tolist() == [*text[1:].tolist(), -100]
        alone = {"input": text[None], "positions": torch.arange(len(text))[None]}
        tokens, _, options = process(trainer, alone, label[None])
        torch.testing.assert_close(output, model(tokens, **options)[0])


def compare_and_write(trainer, inputs, labels):
    batch = process(trainer, inputs, labels)
    if trainer.step == 1:
        compare_with_texts_alone(trainer, *batch)
    print(json.dumps([text.tolist() for text in split(*inputs.values())]), file=file)
    return batch


train.Trainer.post_dataloading_process = compare_and_write
metrics.MetricsProcessor.log = lambda *values, **_: print(json.dumps(values[1:]), file=file)
no_memory = metrics.DeviceMemStats(*[0.0] * 6)
monitor = Mock(device_name="cpu", get_peak_stats=lambda: no_memory)
metrics.build_device_memory_monitor = lambda: monitor
flex._validate_device = utils.set_pg_timeouts = Mock()  # eager, it has a gradient on CPUs
attention._compiled_create_block_mask = flex.create_block_mask
attention.FlexAttention._compiled_flex_attn = lambda *qkv, kernel_options, **options: (
    flex.flex_attention(*qkv, **options)
)
train.main()
