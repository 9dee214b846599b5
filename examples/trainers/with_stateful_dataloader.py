"""Run ``torchrun --nproc_per_node=2 examples/trainers/with_stateful_dataloader.py``, or go on."""

import torch
import torch.distributed as dist
from task import Source, Tagger, checked, gpu_or_cpu, resume, save
from torchdata.stateful_dataloader import StatefulDataLoader

from bload import BlockDataset, BlockSampler, collate_blocks, mean_loss

dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
device = gpu_or_cpu()
model = torch.nn.parallel.DistributedDataParallel(checked(Tagger()).to(device))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
data, sampler = BlockDataset(Source()), BlockSampler(Source.lengths, elastic=True)
loader = StatefulDataLoader(data, batch_sampler=sampler, collate_fn=collate_blocks, num_workers=1)
parts = {"model": model, "optimiser": optimiser, "sampler": sampler, "loader": loader}
resume("stateful.pt", parts)
for epoch in range(sampler.epoch, 8):
    sampler.set_epoch(epoch)  # new blocks
    for step, batch in enumerate(loader):
        batch = batch.to(device)
        optimiser.zero_grad()
        mean_loss(model(batch), batch).backward()
        optimiser.step()
        if step % 4 == 3:
            save("stateful.pt", parts)
dist.destroy_process_group()
