"""The task of the examples beside this file, say of every frame which of two kinds it is."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bload import Batch, BlockDataset, check_boundaries, collate_blocks, make_plan


class Source:
    """Random sequences of 1 to 30 frames; the kind of a frame depends on those before it."""

    lengths = (3, 17, 8, 30, 5, 11, 24, 2, 9, 14, 1, 21, 6, 27, 12, 4, 19, 7, 30, 10, 23, 2, 16)

    def read(self, sequence: int, first: int, length: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(sequence)
        frames = torch.randn(self.lengths[sequence], 8, generator=generator)
        kinds = (frames.sum(1).cumsum(0) > 0).long()
        return frames[first : first + length], kinds[first : first + length]


class Tagger(nn.Module):
    """A GRU over batches of blocks; returns the sum of the losses of a batch's frames."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def logits(self, batch: Batch) -> Tensor:
        outputs, _ = self.gru(batch.to_packed(batch.inputs_BT))  # state clear at every start
        return self.head(batch.from_packed(outputs))

    def forward(self, batch: Batch) -> Tensor:
        return cross_entropy(self.logits(batch).mT, batch.targets_BT, reduction="sum")


def checked(model: Tagger) -> Tagger:
    """The model, after a look at a few blocks: does it keep the sequences there apart?"""
    plan, data = make_plan(Source.lengths, "bload_exact"), BlockDataset(Source())
    check_boundaries(model.logits, collate_blocks([data[plan.block(b)] for b in range(3)]))
    return model


def gpu_or_cpu() -> torch.device:
    """The GPU of this rank, also where each process sees one alone; without GPUs the CPU."""
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if gpus > 1 else 0)
    if gpus:
        torch.cuda.set_device(device)
    return device if gpus else torch.device("cpu")


def resume(path: str, parts: dict[str, Any]) -> None:
    """Give each part its state in the checkpoint, if there is one."""
    if Path(path).exists():
        for name, state in torch.load(path, map_location="cpu").items():
            parts[name].load_state_dict(state)


def save(path: str, parts: dict[str, Any]) -> None:
    """Write a checkpoint on rank 0; a job killed meanwhile leaves the one before."""
    if dist.get_rank() == 0:
        torch.save({name: part.state_dict() for name, part in parts.items()}, path + ".part")
        os.replace(path + ".part", path)
