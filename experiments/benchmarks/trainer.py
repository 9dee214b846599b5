"""transformers' `Trainer`: tokens a second and loss, by its own samplers and by blocks.

    python -m venv /tmp/hf && /tmp/hf/bin/pip install -e . transformers accelerate
    BENCHMARK_PYTHON=/tmp/hf/bin/python python -m experiments.benchmarks trainer

This file runs as a program in that environment, where it imports nothing from here, since the
folder `datasets` of this project hides Hugging Face's package. The texts are those of transformers'
own benchmark of `batch_rebalance`: 1,600 of lognormal(5, 1) tokens within 16 and 1,024, 8 per
device, 2 batches accumulated. A token follows by chance from the two before it. A small Llama
(sdpa) trains one epoch. Blocks of 1,024 slots, two a batch, hold about 8 texts too. The benchmark
``gpu`` times a larger Llama on a card, in the ways that it writes to a program's input.
"""

import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

EXAMPLE = Path(__file__).parents[2] / "examples/trainers/with_transformers.py"
STRATEGIES = ("random", "group_by_length", "batch_rebalance")
WAYS = (*STRATEGIES, "flattening", "bload", "bload_exact", "bload_exact, one row")
COMPILED = ("bload_exact, compiled", "group_by_length, compiled")
ON_A_CARD = ("bload_exact", "random", *COMPILED, *STRATEGIES[1:])  # as far as there is time
T_MAX, VOCABULARY = 1024, 64
SMALL = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
SMALL |= {"num_attention_heads": 4}
LARGE = {"hidden_size": 1536, "intermediate_size": 3584, "num_hidden_layers": 4}
LARGE |= {"num_attention_heads": 12}
"""A Llama of 104 million weights, in few layers, which compile in less time."""
MARK = "timed on a card: "
"""Begins a line of output with a row."""
Item = dict[str, list[int]]
Row = dict[str, Any]


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of one rank, and of two."""
    for ranks in (1, 2):
        launcher = "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"
        with tempfile.TemporaryDirectory() as folder:
            words = command(*launcher, words=["rows", str(int(quick))])
            subprocess.run(words, check=True, cwd=folder)
            yield from json.loads(Path(folder, "rows").read_text())


def command(*launcher: str, words: Sequence[str]) -> list[str]:
    """Return the command that runs this file in the environment with transformers."""
    return [os.environ.get("BENCHMARK_PYTHON", sys.executable), *launcher, __file__, *words]


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


def make_trainer(way: str, data: list[Item], llama: dict[str, Any], **options: Any) -> Any:
    """Make a `Trainer` of a random Llama, transformers' own or the example's."""
    import transformers

    block_trainer: Any = runpy.run_path(str(EXAMPLE))["BlockTrainer"]
    name, *how = way.split(", ")

    class Packed(block_trainer):
        t_max, batch_slots = T_MAX, 2 * T_MAX

        def blocks(self, data, **options):
            plan_blocks = super().blocks(data, packer=name, **options)
            plan_blocks.rows = "one row" not in how
            return plan_blocks

    args = transformers.TrainingArguments(
        "trained",
        per_device_train_batch_size=8,
        train_sampling_strategy=name if name in STRATEGIES else "random",
        learning_rate=3e-3,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        torch_compile="compiled" in how,
        **options,
    )
    transformers.set_seed(args.seed)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, **llama)
    collate = transformers.DataCollatorWithFlattening() if name == "flattening" else padded
    model = transformers.LlamaForCausalLM(config)
    kind = Packed if name.startswith("bload") else transformers.Trainer
    return kind(model, args, train_dataset=data, data_collator=collate)


def train(way: str, seed: int, data: list[Item], test: list[Item]) -> Row:
    """Train one epoch on all ranks."""
    options = {"seed": seed, "num_train_epochs": 1, "use_cpu": True}
    trainer = make_trainer(way, data, SMALL, gradient_accumulation_steps=2, **options)
    output, ranks = trainer.train(), trainer.args.world_size
    tokens = sum(len(item["input_ids"]) for item in data)
    row: Row = {"table": "trainer", "way": way, "ranks": ranks, "seed": seed}
    row |= {"steps": output.global_step, "loss": test_loss(trainer.model, test)}
    return row | {"tokens/s": tokens / output.metrics["train_runtime"]}


@torch.no_grad()
def test_loss(model: Any, test: list[Item]) -> float:
    """Return nats per token."""
    pairs = [(float(model(**padded([item])).loss), len(item["input_ids"]) - 1) for item in test]
    return sum(loss * count for loss, count in pairs) / sum(count for _, count in pairs)


def time_on_a_card(way: str, toy: bool) -> Row:
    """Train two epochs in bf16, and time the second; a toy on the CPU if asked.

    Blocks go through flex attention, which the card alone has a backward pass for.
    """
    import transformers
    from torch._dynamo.utils import counters

    torch._dynamo.reset()  # and what else the way before left
    counters.clear()
    gc.collect()
    if not toy:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = []

    class Clock(transformers.TrainerCallback):
        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            if not toy:
                torch.cuda.synchronize()
            times.append(time.perf_counter())

        on_epoch_end = on_epoch_begin

    data = texts(64 if toy else 800, 0)
    options: dict[str, Any] = {"num_train_epochs": 2, "use_cpu": toy, "bf16": not toy}
    options |= {"torch_compile_backend": "aot_eager"} if toy and "compiled" in way else {}
    attention = "flex_attention" if way.startswith("bload") else "sdpa"
    llama = SMALL if toy else {**LARGE, "attn_implementation": attention}
    trainer = make_trainer(way, data, llama, **options)
    trainer.add_callback(Clock())
    trainer.train()
    tokens = sum(len(item["input_ids"]) for item in data)
    row = {"way": way, "graphs compiled": counters["stats"]["unique_graphs"]}
    peak = 0 if toy else torch.cuda.max_memory_reserved() / 2**30
    return row | {"tokens/s": tokens / (times[3] - times[2]), "GiB": peak}


if __name__ == "__main__":
    torch.set_num_threads(1)
    path, is_toy = sys.argv[1], sys.argv[2] == "1"
    for way in map(str.strip, sys.stdin if path == "-" else ()):
        try:
            row = time_on_a_card(way, is_toy)
        except Exception as error:
            row = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(f"\n{MARK}{json.dumps(row, default=float)}", flush=True)
    if path != "-":
        sizes, seeds = ((64, 8), 1) if is_toy else ((1600, 200), 3)
        data, test = (texts(size, seed) for seed, size in enumerate(sizes))
        rows = [train(way, seed, data, test) for seed in range(seeds) for way in WAYS]
        Path(path).write_text(json.dumps(rows, default=float))
else:
    from experiments.benchmarks import Table

    TRAINED = {"way": "", "ranks": ".0f", "steps": ",.0f", "tokens/s": ",.0f", "loss": ".3f"}
    TABLES = {"trainer": Table("One epoch, means over seeds:", TRAINED, by=("way", "ranks"))}
