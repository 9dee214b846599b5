"""Recognise nine speakers by two vowels, on real data; under torchrun on several ranks.

    pip download aeon --no-deps            # the data are a file in its wheel
    python examples/vowels.py aeon-*.whl   # three ways to batch them, or those named

Kudo, Toyama and Shimbo, "Multidimensional Curve Classification Using Passing-Through Regions"
(Pattern Recognition Letters 20, 1999), JapaneseVowels of the UCI archive, CC BY 4.0; they reach
94.1 % of the test split, hidden Markov models 96.2 %.
"""

import io
import os
import sys
import zipfile

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from bload import Batch, BlockLoader, check_boundaries, from_dataset, mean_loss, unpack

WAYS = {"padded": "naive", "buckets": "bucket", "blocks": "bload_exact"}


def utterances(wheel: str, split: str) -> list[tuple[Tensor, int]]:
    """Frames ``(7 to 29, 12)`` and speaker of every utterance."""
    path = f"aeon/datasets/data/JapaneseVowels/JapaneseVowels_{split}.ts"
    with zipfile.ZipFile(wheel) as archive, archive.open(path) as file:
        lines = [line.strip() for line in io.TextIOWrapper(file) if line[:1] not in "#@"]
    found = []
    for line in filter(None, lines):
        *columns, speaker = line.split(":")
        frames = np.array([column.split(",") for column in columns], np.float32).T
        found.append((torch.from_numpy(frames.copy()), int(speaker) - 1))
    return found


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(12, 64, batch_first=True, bidirectional=True)
        self.head = nn.Linear(128, 9)

    def forward(self, batch: Batch) -> Tensor:
        outputs, _ = self.gru(batch.to_packed(batch.inputs_BT))  # each utterance alone
        return self.head(batch.mean(batch.from_packed(outputs)))


def loader_of(items: list[tuple[Tensor, int]], packer: str, ranks: int) -> BlockLoader:
    lengths = [len(frames) for frames, _ in items]
    slots = round(16 * sum(lengths) / len(lengths) / ranks)  # of 16 utterances
    source = from_dataset(items, lengths, targets_per="sequence")
    longest = max(lengths)  # most are longer than half of it, so blocks of four times as much
    t_max = 4 * longest if packer == "bload_exact" else longest
    return BlockLoader(source, packer, t_max=t_max, batch_slots=max(slots, longest))


def run(way: str, train: list[tuple[Tensor, int]], test: list[tuple[Tensor, int]]) -> str:
    """Train one way; return what it reaches on the test split."""
    torch.manual_seed(0)
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    loader, unseen = (loader_of(items, WAYS[way], ranks) for items in (train, test))
    model = Model()
    net = DistributedDataParallel(model) if dist.is_initialized() else model
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    if way == "blocks":
        check_boundaries(model, next(iter(loader)))
    for epoch in range(20):
        loader.set_epoch(epoch)
        for batch in loader:
            loss_sum = cross_entropy(net(batch), batch.targets_S, reduction="sum")
            optimiser.zero_grad()
            mean_loss(loss_sum, batch, len(batch.segments)).backward()
            optimiser.step()
    with torch.no_grad():
        outputs = [
            one for batch in unseen for one in unpack(model(batch), batch, True, per="sequence")
        ]
    right = sum(int(one.values.argmax()) == test[one.sequence][1] for one in outputs)
    return f"{way}: {100 * right / len(test):.1f} % right; {loader}"


if __name__ == "__main__":
    if "WORLD_SIZE" in os.environ:  # under torchrun
        dist.init_process_group("gloo")  # for CPUs, as this program
    train, test = (utterances(sys.argv[1], split) for split in ("TRAIN", "TEST"))
    for way in sys.argv[2:] or WAYS:
        line = run(way, train, test)
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(line)
