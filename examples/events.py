"""Train on events with irregular time gaps, in one process: ``python examples/events.py``."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bload import Batch, BlockLoader, check_boundaries, from_dataset, mean_loss, unpack, walk


def events(machines: int, seed: int) -> pd.DataFrame:
    """Draw shocks at irregular times; the level of each machine decays between them."""
    rng, rows = np.random.default_rng(seed), []
    for machine in range(machines):
        time = level = 0.0
        for gap in rng.exponential(1.0, rng.integers(5, 60)):
            shock = rng.normal()
            time, level = time + gap, level * np.exp(-0.7 * gap) + shock
            rows.append({"machine": machine, "time": time, "shock": shock, "level": level})
    return pd.DataFrame(rows)


def loader_of(table: pd.DataFrame) -> BlockLoader:
    table = table.sort_values(["machine", "time"])
    table["gap"] = table.groupby("machine")["time"].diff().fillna(0.0)
    parts = [part.astype("float32") for _, part in table.groupby("machine")]
    items = [{name: part[name].to_numpy() for name in ("shock", "gap", "level")} for part in parts]
    source = from_dataset(items, length=list(map(len, parts)), targets="level")
    return BlockLoader(source, t_max=60, batch_slots=8 * 60)


class Decaying(nn.Module):
    """A GRU cell whose state decays with the gap before each event; `walk` clears it at starts."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(2, 24), nn.Linear(24, 1)
        self.rate = nn.Parameter(torch.zeros(24))

    def init_state(self, inputs: Tensor) -> Tensor:
        return inputs.new_zeros(len(inputs), self.cell.hidden_size)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(inputs, state * torch.exp(-softplus(self.rate) * inputs[:, 1:]))
        return state, state

    def forward(self, batch: Batch) -> Tensor:
        inputs_BT = torch.stack([batch.inputs_BT["shock"], batch.inputs_BT["gap"]], -1)
        states_BT, _ = walk(self, inputs_BT, batch.start_BT)
        return self.head(states_BT).squeeze(-1)


@torch.no_grad()
def unexplained(model: Decaying, loader: BlockLoader) -> float:
    outputs = []
    for batch in loader:
        outputs += unpack(torch.stack([model(batch), batch.targets_BT], -1), batch, gather=True)
    level, target = torch.cat([one.values for one in outputs]).unbind(-1)
    return float((level - target).square().mean() / target.var())


torch.manual_seed(0)
loader, unseen = loader_of(events(240, seed=1)), loader_of(events(60, seed=2))
model = Decaying()
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
check_boundaries(model, next(iter(loader)))
before = unexplained(model, unseen)
for epoch in range(8):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        errors_F = (model(batch) - batch.targets_BT)[batch.valid_BT]
        loss = mean_loss(errors_F.square().sum(), batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
after = unexplained(model, unseen)
print(loader)
print(f"unseen machines: {before:.3f} of the variance left before, {after:.3f} after")
