"""Run ``torchrun --nproc_per_node=2 examples/trainers/with_transformers.py``, or go on."""

import random
from itertools import compress

from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint, set_seed

from bload import BlockLoader, check_boundaries, from_dataset


class BlockTrainer(Trainer):
    """A `Trainer` that packs its data, ``input_ids`` and perhaps ``labels``, into blocks."""

    t_max, batch_slots = 128, 128  # at least the longest text; old batch size x mean length

    def blocks(self, data, **options):
        labels = "labels" if "labels" in data[0] else None
        if left := {*data[0]} - {"input_ids", "labels", "attention_mask"}:
            print(f"columns that are left out: {', '.join(sorted(left))}")
        if "attention_mask" in data[0]:  # 0 on padding
            keys = data[0].keys() & {"input_ids", "labels"}
            data = [{key: [*compress(t[key], t["attention_mask"])] for key in keys} for t in data]
        lengths = [len(item["input_ids"]) for item in data]
        source = from_dataset(data, lengths, inputs="input_ids", targets=labels)
        options |= {"t_max": self.t_max, "batch_slots": self.batch_slots, "seed": self.args.seed}
        loader = BlockLoader(source, **options)
        return Blocks(loader, num_workers=self.args.dataloader_num_workers)

    def get_train_dataloader(self):
        # a step takes what is accumulated, so `Trainer` divides its loss by the right number
        return self.blocks(self.train_dataset, micro_batches=self.args.gradient_accumulation_steps)

    def get_eval_dataloader(self, eval_dataset=None):
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        return self.blocks(self.eval_dataset[data] if isinstance(data, str) else data)

    def get_test_dataloader(self, test_dataset):
        return self.blocks(test_dataset)


class Blocks(DataLoader):
    """The batches of a `BlockLoader` as dicts, of which `Trainer` skips the first to resume."""

    def __init__(self, loader, rows=True, **options):
        self.loader, self.rows = loader, rows  # one row, with flash_attn=True, for flash attention
        options |= {"batch_sampler": loader.sampler, "collate_fn": self.collate}
        super().__init__(loader.torch_loader.dataset, **options)

    def collate(self, blocks):
        batch = self.loader.torch_loader.collate_fn(blocks)
        return batch.transformers(rows=self.rows)

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)


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
    trainer.accelerator.end_training()  # ends the process group
