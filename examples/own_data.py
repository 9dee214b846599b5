"""Train a recurrent model on your own sequences; on several ranks, see ``examples/trainers``."""

import torch
from torch.nn.functional import cross_entropy

from bload import BlockLoader, check_boundaries, mean_loss


class Source:  # your data: lengths, and a way to read a run of frames
    lengths = (3, 17, 8, 30, 5, 11, 24, 2)

    def read(self, sequence: int, first: int, length: int):
        frames = torch.randn(length, 16) + sequence % 2
        return frames, torch.full((length,), sequence % 2)  # a target per frame


def run(batch):
    packed, _ = model(batch.to_packed(batch.inputs_BT))  # state clear at every start
    return batch.from_packed(packed)


torch.manual_seed(0)
model = torch.nn.GRU(16, 2, batch_first=True)
optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
loader = BlockLoader(Source(), batch_slots=60)
check_boundaries(run, next(iter(loader)))  # once: does it keep sequences apart?
for epoch in range(30):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        loss_sum = cross_entropy(run(batch).mT, batch.targets_BT, reduction="sum")
        loss = mean_loss(loss_sum, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
print(loader)
print(f"loss {loss:.3f}")
