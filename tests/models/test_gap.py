"""The time between frames, as the network takes it."""

import torch

from models.branch import GapEmbedding


def test_gaps_are_told_apart_small_ones_finely_and_large_ones_coarsely():
    torch.manual_seed(0)
    gap = GapEmbedding(16)
    assert not gap(torch.tensor([[0.0, 7.0]])).any()  # before training
    torch.nn.init.normal_(gap.linear.weight)
    vectors = gap(torch.tensor([[0.0, 1.0, 2.0, 10.0, 100.0, 101.0, 1000.0, 30_000.0]]))[0]
    distance = torch.cdist(vectors, vectors)
    others = distance + 100 * torch.eye(8)
    others[4, 5] = others[5, 4] = 100  # 100 and 101 are nearly alike
    assert others.min() > 10 * distance[4, 5] > 0
