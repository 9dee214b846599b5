"""Rows that ranks share equally: results and gradients are those of one rank."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from bload import spread_rows, transfers

COUNTS = [7, 0, 2]


def encode(rank, ranks, with_costs):
    """Outputs and gradients of this rank's rows, those of the encoder, and the cost that it had."""
    draw = torch.Generator().manual_seed(rank)
    rows_I = torch.randn(COUNTS[rank], 4, generator=draw, dtype=torch.float64, requires_grad=True)
    cost_I = torch.arange(1.0, COUNTS[rank] + 1)
    torch.manual_seed(0)
    encoder = nn.Linear(4, 3).double()
    if not ranks:
        outputs_I = encoder(rows_I)
        load = float(cost_I.sum())
    else:
        spread = spread_rows(cost_I.tolist() if with_costs else len(rows_I))
        outputs_I = spread.home(encoder(spread.away(rows_I)).T, dim=1).T
        load = float(spread.away(cost_I if with_costs else torch.ones(len(rows_I))).sum())
    outputs_I.sin().sum().backward()
    return outputs_I.detach(), rows_I.grad, encoder.weight.grad, load


def on_a_rank(ranks, with_costs):
    return encode(ranks.rank, ranks, with_costs)


@pytest.mark.dist
@pytest.mark.parametrize("with_costs", [False, True])
def test_two_ranks_share_rows_and_give_what_each_gives_alone(two_ranks, with_costs):
    compare(two_ranks.run(on_a_rank, with_costs), with_costs)


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize("with_costs", [False, True])
def test_three_ranks_share_rows_and_give_what_each_gives_alone(three_ranks, with_costs):
    compare(three_ranks.run(on_a_rank, with_costs), with_costs)


def compare(results, with_costs):
    alone = [encode(rank, None, with_costs) for rank in range(len(results))]
    for (outputs_I, grad_I, _, _), (expected_I, expected_grad_I, _, _) in zip(
        results, alone, strict=True
    ):
        torch.testing.assert_close(outputs_I, expected_I)
        torch.testing.assert_close(grad_I, expected_grad_I)
    weights = [sum(result[2] for result in some) for some in (results, alone)]
    torch.testing.assert_close(*weights)
    loads = [result[3] for result in results]
    assert np.ptp(loads) <= (max(COUNTS) if with_costs else 1)
    if with_costs:  # 28 of 28 on the first rank before
        assert max(loads) <= sum(loads) / len(loads) + max(COUNTS) / 2


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
