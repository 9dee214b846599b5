"""Run ``torchrun --nproc_per_node=2 examples/trainers/fsdp.py``; stopped, it resumes."""

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from task import Source, Tagger, checked, gpu_or_cpu
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

from bload import BlockLoader, mean_loss

dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
device = gpu_or_cpu()
model = checked(Tagger()).to(device)
fully_shard(model, mesh=dist.init_device_mesh(device.type, (dist.get_world_size(),)))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
loader = BlockLoader(Source(), num_workers=1, elastic=True)  # on the ranks that are there


def state():
    weights, moments = get_state_dict(model, optimiser)
    return {"model": weights, "optimiser": moments, "loader": loader}


newest = max(Path("fsdp_run").glob("*/.metadata"), default=None)  # this file is written last
if newest:
    dcp.load(saved := state(), checkpoint_id=newest.parent)  # the loader too
    weights, moments = saved["model"], saved["optimiser"]
    set_state_dict(model, optimiser, model_state_dict=weights, optim_state_dict=moments)
for epoch in range(loader.epoch, 8):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        optimiser.zero_grad()
        mean_loss(model(batch.to(device)), batch).backward()
        optimiser.step()
        if loader.step % 4 == 0 or loader.step == loader.steps:
            dcp.save(state(), checkpoint_id=f"fsdp_run/{epoch:03}-{loader.step:06}")
    if dist.get_rank() == 0:
        print(f"epoch {epoch}, {loader.step} steps")
dist.destroy_process_group()
