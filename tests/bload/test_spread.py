"""Rows that ranks share equally: results and gradients are those of one rank."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from bload import spread_rows
from bload.batch.spread import transfers

COUNTS = [7, 0, 2]


def encode(rank, ranks):
    """Outputs and gradients of this rank's rows, those of the encoder, and the rows it computed."""
    draw = torch.Generator().manual_seed(rank)
    rows_I = torch.randn(COUNTS[rank], 4, generator=draw, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    encoder, computed = nn.Linear(4, 3).double(), rows_I
    outputs_I = encoder(rows_I)
    if ranks:
        spread = spread_rows(len(rows_I))
        computed = spread.away(rows_I)
        outputs_I = spread.home(encoder(computed).T, dim=1).T
    outputs_I.sin().sum().backward()
    return outputs_I.detach(), rows_I.grad, encoder.weight.grad, len(computed)


def on_a_rank(ranks):
    return encode(ranks.rank, ranks)


@pytest.mark.dist
def test_two_ranks_share_rows_and_give_what_each_gives_alone(two_ranks):
    results = two_ranks.run(on_a_rank)
    alone = [encode(rank, None) for rank in range(2)]
    for result, expected in zip(results, alone, strict=True):
        torch.testing.assert_close(result[:2], expected[:2])
    torch.testing.assert_close(*(sum(one[2] for one in some) for some in (results, alone)))
    assert sorted(one[3] for one in results) == [3, 4]


def test_transfers_leave_all_ranks_as_many_and_move_the_fewest():
    rng = np.random.default_rng(0)
    for ranks in (1, 2, 3, 5):
        for _ in range(30):
            have_R = rng.integers(0, 9, size=ranks)
            given_RR = transfers(have_R)
            assert (given_RR >= 0).all()
            assert (given_RR.sum(axis=1) == have_R).all()
            assert np.ptp(given_RR.sum(axis=0)) <= 1
            moved = given_RR.sum() - given_RR.trace()
            ends = permutations(given_RR.sum(axis=0))
            assert moved == min(np.maximum(have_R - want_R, 0).sum() for want_R in ends)
