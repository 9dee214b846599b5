"""Muon of many matrices at once is PyTorch's Muon, but for rounding."""

import torch

from training.optimiser import Muon

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
