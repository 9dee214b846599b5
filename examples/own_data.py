"""Train a recurrent model on your own sequences: ``PYTHONPATH=. python examples/own_data.py``."""

import torch

from bload import BlockLoader, walk


class Source:  # your data: lengths, and a way to read a run of frames
    lengths = (3, 17, 8, 30, 5, 11, 24, 2)

    def read(self, sequence: int, first: int, length: int):
        return torch.randn(length, 16) + sequence % 2, [sequence % 2] * length  # one per frame


class Recurrent(torch.nn.GRUCell):  # any module with these two
    def init_state(self, inputs):
        return inputs.new_zeros(len(inputs), self.hidden_size)

    def step(self, inputs, state):
        state = self(inputs, state)
        return state, state


torch.manual_seed(0)
model = Recurrent(16, 2)
optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
loader = BlockLoader(Source(), "bload_exact", batch_frames=60)  # rank=, world_size= under DDP
for epoch in range(30):
    loader.set_epoch(epoch)
    for batch in loader:
        logits_BT, _ = walk(model, batch.frames_BT, batch.start_BT)  # cleared at every start
        wanted = torch.tensor(batch.targets)
        loss = torch.nn.functional.cross_entropy(logits_BT[batch.valid_BT], wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
print(f"{loader.account.padding} padded, {loader.account.deleted} deleted, loss {loss:.3f}")
