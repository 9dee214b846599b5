"""Train a byte-level GRU on Python's own sources: ``python examples/text.py``, or torchrun."""

import math
import os
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import PackedSequence

from bload import Batch, BlockLoader, check_boundaries, from_dataset, mean_loss, unpack

T_MAX, BLOCKS, WINDOW = 8192, 4, 64  # slots in a block, blocks in a step over all ranks


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, 32)
        self.gru = nn.GRU(32, 96, batch_first=True)
        self.head = nn.Linear(96, 256)

    def forward(self, batch: Batch) -> Tensor:
        packed = batch.to_packed(self.embed(batch.inputs_BT.int()))
        # On a CPU torch's backward pass is slow for many steps in one call, so a few at a time.
        sizes = packed.batch_sizes.split(WINDOW)
        parts = packed.data.split([int(part.sum()) for part in sizes])
        state, outputs = None, []
        for part, sizes_T in zip(parts, sizes, strict=True):
            state = None if state is None else state[:, : sizes_T[0]]  # longest segments first
            output, state = self.gru(PackedSequence(part, sizes_T), state)
            outputs.append(output.data)
        logits_BT = self.head(batch.from_packed(packed._replace(data=torch.cat(outputs))))
        labels_BT = batch.next_tokens(batch.inputs_BT.long())  # -100 where a segment ends
        return cross_entropy(logits_BT.mT, labels_BT, reduction="none")


@torch.no_grad()
def bits_per_byte(model: Model, loader: BlockLoader) -> float:
    outputs = []
    for batch in loader:
        outputs += unpack(model(batch) / math.log(2), batch, gather=True)
    return float(torch.cat([one.values[:-1] for one in outputs]).mean())


if "WORLD_SIZE" in os.environ:  # under torchrun
    dist.init_process_group("gloo")  # for CPUs, as this program
torch.manual_seed(0)
paths = [p for p in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")) if p.stat().st_size]
ranks = dist.get_world_size() if dist.is_initialized() else 1
texts = [np.fromfile(path, np.uint8) for path in paths]
slots = T_MAX * max(BLOCKS // ranks, 1)
options: dict[str, Any] = {"t_max": T_MAX, "long": "split", "batch_slots": slots}
loader = BlockLoader(from_dataset(texts[1::12], length=len), **options)
unseen = BlockLoader(from_dataset(texts[::60], length=len), **options)
model = Model()
net = DistributedDataParallel(model) if dist.is_initialized() else model
optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
check_boundaries(model, next(b for b in loader if len(b.segments) > len(b.valid_BT)))
before = bits_per_byte(model, unseen)
for batch in loader:
    loss = mean_loss(net(batch).sum(), batch, batch.valid_BT.sum() - len(batch.segments))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
after = bits_per_byte(model, unseen)
if loader.sampler.rank == 0:
    print(loader)
    print(f"unseen files: {before:.2f} bits per byte before, {after:.2f} after")
