"""Train a causal transformer on paragraphs: ``python examples/transformer.py``, or torchrun."""

import math
import os
import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

from bload import Batch, BlockLoader, check_boundaries, from_dataset, mean_loss, unpack

T_MAX, WIDTH, HEADS = 256, 64, 4
GPU = os.environ.get("LOCAL_RANK", 0) if torch.cuda.device_count() > 1 else 0  # one per process
DEVICE = f"cuda:{GPU}" if torch.cuda.is_available() else "cpu"
flex = None if DEVICE == "cpu" else torch.compile(flex_attention)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH))

    def forward(self, x_BT: Tensor, attend: Any) -> Tensor:
        heads = self.qkv(self.norm1(x_BT)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x_BT = x_BT + self.out(attend(*heads).transpose(1, 2).flatten(2))
        return x_BT + self.mlp(self.norm2(x_BT))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(256, WIDTH), nn.Embedding(T_MAX, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, batch: Batch) -> Tensor:
        x_BT = self.token(batch.inputs_BT.int()) + self.position(batch.segment_position_BT)
        if flex is None:  # flex_attention has no backward pass on a CPU
            attend = partial(scaled_dot_product_attention, attn_mask=batch.attention_mask())
        else:
            attend = partial(flex, block_mask=batch.block_mask())
        for layer in self.layers:
            x_BT = layer(x_BT, attend)
        labels_BT = batch.next_tokens(batch.inputs_BT.long())  # -100 where a segment ends
        return cross_entropy(self.head(x_BT).mT, labels_BT, reduction="none")


@torch.no_grad()
def bits_per_byte(model: Model, loader: BlockLoader) -> float:
    outputs = []
    for batch in loader:
        batch = batch.to(DEVICE)
        outputs += unpack(model(batch) / math.log(2), batch, gather=True)
    return float(torch.cat([one.values[:-1] for one in outputs]).mean())


if "WORLD_SIZE" in os.environ:  # under torchrun
    if DEVICE != "cpu":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("gloo" if DEVICE == "cpu" else "cpu:gloo,cuda:nccl")
torch.manual_seed(0)
sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::9]
paragraphs = [part for path in sources for part in path.read_bytes().split(b"\n\n")]
texts = [np.frombuffer(part, np.uint8) for part in paragraphs if 2 <= len(part) <= T_MAX]
loader = BlockLoader(from_dataset(texts[200:], length=len), t_max=T_MAX, batch_slots=8 * T_MAX)
unseen = BlockLoader(from_dataset(texts[:200], length=len), t_max=T_MAX, batch_slots=8 * T_MAX)
model = Model().to(DEVICE)
net = DistributedDataParallel(model) if dist.is_initialized() else model
optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
check_boundaries(model, next(iter(loader)).to(DEVICE))
before = bits_per_byte(model, unseen)
for batch in (one.to(DEVICE) for one in loader):
    loss = mean_loss(net(batch).sum(), batch, batch.valid_BT.sum() - len(batch.segments))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
after = bits_per_byte(model, unseen)
if loader.sampler.rank == 0:
    print(loader)
    print(f"unseen paragraphs: {before:.2f} bits per byte before, {after:.2f} after")
