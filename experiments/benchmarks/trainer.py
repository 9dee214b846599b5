"""transformers' `Trainer`: tokens a second and loss, by its own samplers and by blocks.

    python -m venv /tmp/hf && /tmp/hf/bin/pip install -e . transformers accelerate
    PACKERS=/tmp/hf/bin/python python -m experiments.benchmarks trainer

torchrun runs this file as a program in that environment, where it imports nothing from here, since
the folder `datasets` of this project hides Hugging Face's package. The texts are those of
transformers' own benchmark of `batch_rebalance`: 1,600 of lognormal(5, 1) tokens within 16 and
1,024, 8 per device, 2 batches accumulated. A token follows by chance from the two before it. A
small Llama (sdpa) trains one epoch. Blocks of 1,024 slots, two a batch, hold about 8 texts too.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

EXAMPLE = Path(__file__).parents[2] / "examples/trainers/with_transformers.py"
STRATEGIES = ("random", "group_by_length", "batch_rebalance")
WAYS = (*STRATEGIES, "flattening", "bload", "bload_exact", "bload_exact, one row")
T_MAX, VOCABULARY = 1024, 64
Item = dict[str, list[int]]
Row = dict[str, Any]


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of one rank, and of two."""
    for ranks in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            command = [os.environ.get("PACKERS", sys.executable), "-m", "torch.distributed.run"]
            command += ["--standalone", f"--nproc_per_node={ranks}", __file__, "rows"]
            subprocess.run([*command, str(int(quick))], check=True, cwd=folder)
            yield from json.loads(Path(folder, "rows").read_text())


def texts(count: int, seed: int) -> list[Item]:
    """Draw texts of a chain of order two, in which one of four tokens follows."""
    draw = np.random.default_rng([seed, 1])
    follows = np.random.default_rng(0).integers(0, VOCABULARY, (VOCABULARY, VOCABULARY, 4))
    lengths = np.clip(draw.lognormal(5.0, 1.0, count).astype(int), 16, T_MAX)
    items = []
    for length in lengths:
        tokens = draw.integers(0, VOCABULARY, 2).tolist()
        for choice in draw.choice(4, length - 2, p=[0.7, 0.1, 0.1, 0.1]):
            tokens.append(int(follows[tokens[-2], tokens[-1], choice]))
        items.append({"input_ids": tokens})
    return items


def padded(items: list[Item]) -> dict[str, torch.Tensor]:
    """Make a batch as wide as its longest text."""
    rows = [torch.tensor(item["input_ids"]) for item in items]
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    labels = pad_sequence(rows, batch_first=True, padding_value=-100)
    tokens = pad_sequence(rows, batch_first=True)
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def train(way: str, seed: int, data: list[Item], test: list[Item]) -> Row:
    """Train one epoch on all ranks, by `Trainer` itself or by the example."""
    import transformers

    block_trainer: Any = runpy.run_path(str(EXAMPLE))["BlockTrainer"]

    class Packed(block_trainer):
        t_max, batch_slots = T_MAX, 2 * T_MAX

        def blocks(self, data, **options):
            packer, _, one_row = way.partition(", ")
            plan_blocks = super().blocks(data, packer=packer, **options)
            plan_blocks.rows = not one_row
            return plan_blocks

    args = transformers.TrainingArguments(
        "trained",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        train_sampling_strategy=way if way in STRATEGIES else "random",
        num_train_epochs=1,
        learning_rate=3e-3,
        seed=seed,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    transformers.set_seed(seed)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_attention_heads=4, **sizes)
    collate = transformers.DataCollatorWithFlattening() if way == "flattening" else padded
    model = transformers.LlamaForCausalLM(config)
    kind = Packed if way.startswith("bload") else transformers.Trainer
    output = kind(model, args, train_dataset=data, data_collator=collate).train()
    tokens = sum(len(item["input_ids"]) for item in data)
    row = {"way": way, "ranks": args.world_size, "seed": seed, "steps": output.global_step}
    row |= {"tokens/s": tokens / output.metrics["train_runtime"], "loss": test_loss(model, test)}
    return {"table": "trainer", **row}


@torch.no_grad()
def test_loss(model: Any, test: list[Item]) -> float:
    """Return nats per token."""
    pairs = [(float(model(**padded([item])).loss), len(item["input_ids"]) - 1) for item in test]
    return sum(loss * count for loss, count in pairs) / sum(count for _, count in pairs)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sizes, seeds = ((64, 8), 1) if sys.argv[2] == "1" else ((1600, 200), 3)
    data, test = (texts(size, seed) for seed, size in enumerate(sizes))
    rows = [train(way, seed, data, test) for seed in range(seeds) for way in WAYS]
    Path(sys.argv[1]).write_text(json.dumps(rows, default=float))
else:
    from experiments.benchmarks import Table

    TRAINED = {"way": "", "ranks": ".0f", "steps": ",.0f", "tokens/s": ",.0f", "loss": ".3f"}
    TABLES = {"trainer": Table("One epoch, means over seeds:", TRAINED, by=("way", "ranks"))}
