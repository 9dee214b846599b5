"""Run ``torchrun -m torchtitan.train --module with_torchtitan --config debug_model`` here."""

import json
from dataclasses import dataclass
from functools import cache

import torch.distributed as dist
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.llama3.config_registry import llama3_debugmodel

from bload import BlockLoader, from_dataset


class BlockDataLoader(BaseDataLoader):
    """Yields blocks of whole texts with their labels; positions restart at each text."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        num_workers: int = 1

    def __init__(self, config, dp_rank, dp_world_size, tokenizer, seq_len, local_batch_size, **_):
        def encode(item):
            tokens = tokenizer.encode(entry.sample_processor(item), add_bos=True, add_eos=True)
            return {"tokens": tokens, "length": len(tokens)}

        entry = DATASETS[config.dataset]
        texts = entry.loader(config.dataset_path or entry.path)
        texts = texts.map(encode, remove_columns=texts.column_names).with_format("numpy")
        self.loader = BlockLoader(
            from_dataset(texts, texts["length"][:], inputs="tokens"),
            t_max=seq_len,
            batch_slots=seq_len * local_batch_size,
            process_group=data_group(dp_rank, dp_world_size),
            num_workers=config.num_workers,
            elastic=True,  # goes on with another number of ranks
            long="split",
        )

    def __iter__(self):
        while True:
            for batch in self.loader:  # after a finished pass, the next epoch
                tokens_BT = batch.inputs_BT.long()
                inputs = {"input": tokens_BT, "positions": batch.segment_position_BT}
                yield inputs, batch.next_tokens(tokens_BT)

    def state_dict(self):
        return {"position": json.dumps(self.loader.state_dict())}  # the same on every rank

    def load_state_dict(self, state_dict):
        self.loader.load_state_dict(json.loads(state_dict["position"]))


@cache
def data_group(dp_rank, dp_world_size):
    """Return a group with one rank of each share of the data; with TP there are several."""
    shares = [dp_rank] * dist.get_world_size()
    dist.all_gather_object(shares, dp_rank)
    ranks = [[r for r, share in enumerate(shares) if share == s] for s in range(dp_world_size)]
    groups = [[*group] for group in zip(*ranks, strict=True)]
    return dist.new_subgroups_by_enumeration(groups, backend="gloo")[0]


def debug_model():
    config = llama3_debugmodel()
    config.dataloader = BlockDataLoader.Config(dataset="c4_test")
    config.checkpoint.enable = True
    return config
