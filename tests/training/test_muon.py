"""Muon of many matrices at once is PyTorch's Muon, but for rounding."""

import copy

import pytest
import torch

from training.muon import Muon, orthogonal

SHAPES = [(16, 16), (48, 16), (16, 16), (16, 40), (48, 16)]


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(s, generator=generator).to(dtype)) for s in SHAPES]


def walk(optimiser, made, steps):
    """As many steps with gradients of their own, of which the last parameter has none at first."""
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for number, parameter in enumerate(made):
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            if step == 0 and number == len(made) - 1:
                parameter.grad = None
        optimiser.step()


def test_steps_are_those_of_pytorch():
    mine, theirs = parameters(), parameters()
    groups = [{"lr": 0.02, "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.0}]
    ours = Muon([group | {"params": mine[n::2]} for n, group in enumerate(groups)])
    reference = torch.optim.Muon(
        [group | {"params": theirs[n::2]} for n, group in enumerate(groups)],
        adjust_lr_fn="match_rms_adamw",
    )
    walk(ours, mine, 3)
    walk(reference, theirs, 3)
    for one, other, begun in zip(mine, theirs, parameters(), strict=True):
        moved, expected = one - begun, other - begun
        assert (moved - expected).norm() < 0.02 * expected.norm()  # bfloat16 has 8 bits
    state = ours.state_dict()
    assert state["state"].keys() == reference.state_dict()["state"].keys()
    reference.load_state_dict(copy.deepcopy(state))


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 40, 8), (2, 8, 40)])
def test_singular_values_come_close_to_one_and_directions_stay(shape):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    group = torch.optim.Muon([torch.nn.Parameter(torch.ones(2, 2))]).param_groups[0]
    found = orthogonal(made, group["ns_coefficients"], group["ns_steps"], group["eps"])
    left, _, right = torch.linalg.svd(made, full_matrices=False)
    along = left.mT @ found @ right.mT
    values = along.diagonal(dim1=1, dim2=2)
    assert 0.5 < values.min() <= values.max() < 1.3
    assert (along - torch.diag_embed(values)).abs().max() < 1e-3


def test_a_matrix_is_treated_alone_or_among_others_alike():
    alone, among = parameters()[:2], parameters()
    walk(Muon([{"params": alone, "lr": 0.02}]), alone, 1)  # of which the second has no gradient
    walk(Muon([{"params": among, "lr": 0.02}]), among, 1)
    torch.testing.assert_close(alone[0], among[0])
    assert torch.equal(alone[1], parameters()[1])
