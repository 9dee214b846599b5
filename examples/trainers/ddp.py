"""Run ``torchrun --nproc_per_node=2 examples/trainers/ddp.py``; stopped, it resumes."""

import os

import torch
import torch.distributed as dist
from task import Source, Tagger, resume, save

from bload import BlockLoader, mean_loss

has_gpus = torch.cuda.is_available()
if has_gpus:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo")
model = torch.nn.parallel.DistributedDataParallel(Tagger())
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
loader = BlockLoader(Source(), num_workers=1)  # takes its rank from the process group
parts = {"model": model, "optimiser": optimiser, "loader": loader}
resume("ddp.pt", parts)
for epoch in range(loader.sampler.epoch, 8):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        optimiser.zero_grad()
        loss = mean_loss(model(batch), batch.valid_BT.sum())
        loss.backward()
        optimiser.step()
        if loader.step % 4 == 0:
            print(f"epoch {epoch}, step {loader.step}, loss {loss:.3f}")
            save("ddp.pt", parts)
dist.destroy_process_group()
