"""Run ``torchrun --nproc_per_node=2 examples/trainers/with_transformers.py``, or go on."""

import json
import random
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint, set_seed

from bload import BlockLoader, check_boundaries, from_dataset


class BlockTrainer(Trainer):
    """A `Trainer` that packs its data, ``input_ids`` and perhaps ``labels``, into blocks."""

    t_max, batch_slots = 128, 128  # at least the longest text; old batch size x mean length

    def blocks(self, data, **options):
        labels = "labels" if "labels" in data[0] else None
        lengths = [len(item["input_ids"]) for item in data]
        source = from_dataset(data, lengths, inputs="input_ids", targets=labels)
        options |= {"t_max": self.t_max, "batch_slots": self.batch_slots, "seed": self.args.seed}
        return Blocks(BlockLoader(source, **options))

    def get_train_dataloader(self):
        # a step takes what is accumulated, so `Trainer` divides its loss by the right number
        made = self.blocks(self.train_dataset, micro_batches=self.args.gradient_accumulation_steps)
        self.add_callback(Position(made.loader))
        return made

    def get_eval_dataloader(self, eval_dataset=None):
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        return self.blocks(self.eval_dataset[data] if isinstance(data, str) else data)

    def get_test_dataloader(self, test_dataset):
        return self.blocks(test_dataset)


class Blocks:
    """A `BlockLoader` where `Trainer` expects a `DataLoader`."""

    def __init__(self, loader, rows=True):
        self.loader, self.rows = loader, rows  # one row, with flash_attn=True, for flash attention

    def __len__(self):
        return len(self.loader)

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def __iter__(self):
        return (batch.transformers(rows=self.rows) for batch in self.loader)


class Position(TrainerCallback):
    """Keeps the position of the blocks beside each checkpoint."""

    def __init__(self, loader):
        self.loader = loader

    def path(self, args, state):
        return Path(args.output_dir, f"checkpoint-{state.global_step}", "blocks.json")

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.path(args, state).write_text(json.dumps(self.loader.state_dict()))

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step:
            self.loader.load_state_dict(json.loads(self.path(args, state).read_text()))


def texts(count, seed):
    """Tokens that count up from a random one, as items of a data set."""
    draw = random.Random(seed)
    return [
        {"input_ids": [(first + i) % 50 for i in range(draw.randint(4, 100))]}
        for first in draw.choices(range(50), k=count)
    ]


def make_trainer(folder, **options):
    args = TrainingArguments(
        folder,
        num_train_epochs=4,
        learning_rate=1e-3,
        save_steps=4,
        ignore_data_skip=True,  # the loader knows its position
        use_cpu=True,  # leave it out on GPUs
        **options,
    )
    set_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_attention_heads=4, **sizes))
    trainer = BlockTrainer(model, args, train_dataset=texts(200, 0), eval_dataset=texts(40, 1))
    first = next(iter(trainer.blocks(trainer.train_dataset).loader)).to(model.device)
    check_boundaries(lambda batch: model(**batch.transformers(rows=True)).logits, first)
    return trainer


if __name__ == "__main__":
    trainer = make_trainer("transformers_run", eval_strategy="epoch", gradient_accumulation_steps=2)
    trainer.train(resume_from_checkpoint=get_last_checkpoint("transformers_run"))
