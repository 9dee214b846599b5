"""Run ``torchrun --nproc_per_node=2 examples/trainers/ddp.py``; stopped, it resumes.

With ``--nnodes=1:2 --max-restarts=3`` it goes on if one of two machines is lost.
"""

import torch
import torch.distributed as dist
from task import Source, Tagger, checked, gpu_or_cpu, resume, save

from bload import BlockLoader, mean_loss

dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
device = gpu_or_cpu()
model = torch.nn.parallel.DistributedDataParallel(checked(Tagger()).to(device))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
loader = BlockLoader(Source(), num_workers=1, elastic=True)  # on the ranks that are there
parts = {"model": model, "optimiser": optimiser, "loader": loader}
resume("ddp.pt", parts)
for epoch in range(loader.epoch, 8):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        batch = batch.to(device)
        optimiser.zero_grad()
        loss = mean_loss(model(batch), batch)
        loss.backward()
        optimiser.step()
        if loader.step % 4 == 0 or loader.step == loader.steps:
            dist.all_reduce(mean := loss.detach() / dist.get_world_size())
            if dist.get_rank() == 0:
                print(f"epoch {epoch}, step {loader.step}, loss {mean:.3f}")
            save("ddp.pt", parts)
dist.destroy_process_group()
