"""The time between frames: where it reaches, and that it answers what nothing else can.

B blocks, T slots.
"""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from models.gap import GapEmbedding
from models.temporal.layers import MemoryLayer, TemporalStack
from models.temporal.scan import ScanMemory

SLOTS = 9
LONGEST = 100
PASSED = 60
CHANCE_G = 1 / np.arange(1, LONGEST + 1) / (1 / np.arange(1, LONGEST + 1)).sum()
"""Of the gaps from 1 to `LONGEST` frames: as many from 1 to 10 as from 10 to 100."""


def draw_events(sequences: int, rng: np.random.Generator):
    """An event on one slot of each sequence; the question: have `PASSED` frames passed since?

    Returns the event's slot as a mask, the gaps, where the question is asked (after the event), and
    the answers, each ``(B, T)``.
    """
    gap_BT = rng.choice(LONGEST, (sequences, SLOTS), p=CHANCE_G) + 1
    gap_BT[:, 0] = 0
    event_B1 = rng.integers(SLOTS, size=(sequences, 1))
    after_BT = np.arange(SLOTS) > event_B1
    late_BT = np.cumsum(gap_BT * after_BT, axis=1) > PASSED
    drawn = (np.arange(SLOTS) == event_B1, gap_BT, after_BT, late_BT)
    return tuple(torch.from_numpy(array) for array in drawn)


def best_without_gaps() -> float:
    """Accuracy of an observer that knows the chances, and the number of frames since the event."""
    right, asked, elapsed = 0.0, 0, np.ones(1)
    for frames in range(1, SLOTS):
        elapsed = np.convolve(elapsed, np.append(0, CHANCE_G))
        late = elapsed[PASSED + 1 :].sum()
        right += (SLOTS - frames) * max(late, 1 - late)
        asked += SLOTS - frames
    return right / asked


def test_with_gaps_a_memory_learns_how_long_ago_an_event_was():
    assert best_without_gaps() == pytest.approx(0.743, abs=5e-4)
    torch.manual_seed(0)
    rng, width, steps = np.random.default_rng(0), 16, 120
    sizes = {"heads": 2, "feedforward": 32, "dropout": 0.0, "norm_first": True}
    part = TemporalStack(partial(MemoryLayer, ScanMemory), layers=1, width=width, **sizes)
    gap, shown, answer = GapEmbedding(width), nn.Embedding(2, width), nn.Linear(width, 1)
    network = nn.ModuleList((part, gap, shown, answer))
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)

    def scores(event_BT: torch.Tensor, gap_BT: torch.Tensor) -> torch.Tensor:
        embeddings = shown(event_BT.long()) + gap(gap_BT)
        start_BT = torch.zeros_like(event_BT)
        outputs, _ = part(embeddings[:, :, None], torch.zeros(1, width), start_BT)
        return answer(outputs[-1, :, :, 0]).squeeze(-1)

    for _ in range(steps):
        event, gaps, after, late = draw_events(64, rng)
        loss = F.binary_cross_entropy_with_logits(scores(event, gaps)[after], late[after].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    event, gaps, after, late = draw_events(4000, rng)
    with torch.no_grad():
        assert ((scores(event, gaps) > 0) == late)[after].float().mean() > 0.92
