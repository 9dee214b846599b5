"""Train a recurrent model on your own sequences: ``python examples/own_data.py``."""

import torch
from torch import nn

from bload import BlockLoader, walk


class Source:  # anything with lengths and read()
    lengths = (3, 17, 8, 30, 5, 11, 24, 2)

    def read(self, sequence: int, first: int, length: int):
        frames = torch.randn(length, 16, generator=torch.Generator().manual_seed(sequence))
        return frames, [sequence % 2] * length  # frames, and one target a frame


class Recurrent(nn.GRUCell):
    init_state = staticmethod(lambda inputs: inputs.new_zeros(len(inputs), 32))

    def step(self, inputs, state):
        state = self(inputs, state)
        return state, state


gru, head = Recurrent(16, 32), nn.Linear(32, 2)
optimiser = torch.optim.Adam([*gru.parameters(), *head.parameters()], lr=1e-2)
loader = BlockLoader(Source(), "bload_exact", batch_frames=60)  # rank=, world_size= under DDP
for epoch in range(20):
    loader.set_epoch(epoch)
    for batch in loader:
        hidden_BT, _ = walk(gru, batch.frames_BT, batch.start_BT)  # cleared at every start
        logits = head(hidden_BT[batch.valid_BT])  # padding left out
        loss = nn.functional.cross_entropy(logits, torch.tensor(batch.targets))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
print(f"{loader.account.padding} padded, {loader.account.deleted} deleted, loss {loss:.3f}")
