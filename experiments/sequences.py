"""Feature sequences and a recurrent classifier of them: the least that needs what a video needs.

B blocks, T slots, F features, D width, K classes.
"""

import numpy as np
import torch
from torch import Tensor, nn

from bload.batch import Batch
from bload.state import State, walk

FEATURES = 16
CLASSES = 4


class FeatureSequences:
    """Random features of given lengths; every frame leans towards the class of its sequence.

    One frame tells little of the class, so it pays to remember the earlier ones.
    """

    def __init__(self, lengths: np.ndarray, seed: int = 0) -> None:
        self.lengths = np.asarray(lengths)
        self._offset = np.concatenate([[0], np.cumsum(self.lengths)])
        random = torch.Generator().manual_seed(seed)
        direction_KF = torch.randn(CLASSES, FEATURES, generator=random) / FEATURES**0.5
        self._features_NF = torch.randn(int(self._offset[-1]), FEATURES, generator=random)
        class_N = torch.arange(len(self.lengths)) % CLASSES
        self._features_NF += direction_KF[class_N.repeat_interleave(torch.as_tensor(self.lengths))]

    def read(self, sequence: int, first: int, length: int) -> tuple[Tensor, list[int]]:
        """Features ``(length, F)`` and a class a frame."""
        begin = int(self._offset[sequence]) + first
        return self._features_NF[begin : begin + length], [sequence % CLASSES] * length


class RecurrentClassifier(nn.Module):
    """A GRU that is cleared at every start, and a linear layer on its state."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.cell = nn.GRUCell(FEATURES, width)
        self.head = nn.Linear(width, CLASSES)

    def init_state(self, inputs: Tensor) -> Tensor:
        return inputs.new_zeros(len(inputs), self.cell.hidden_size)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(inputs, state)
        return state, state

    def forward(
        self, frames_BTF: Tensor, start_BT: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """Logits ``(B, T, K)`` and the state after the last slot."""
        state_BTD, state = walk(self, frames_BTF, start_BT, state)
        return self.head(state_BTD), state


def train_step(model: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch) -> None:
    """One step on the frames of a batch; a batch of empty blocks has a gradient of zero."""
    logits_BTK, _ = model(batch.frames_BT, batch.start_BT)
    wanted_V = torch.tensor(batch.targets, dtype=torch.int64)
    loss = nn.functional.cross_entropy(logits_BTK[batch.valid_BT], wanted_V, reduction="sum")
    optimiser.zero_grad()
    (loss / batch.valid_BT.numel()).backward()
    optimiser.step()
