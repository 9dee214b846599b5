"""Rates by progress, and Muon; which parameters have which rate, the golden losses tell."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from training.optimiser import Muon, build_optimisers, rate_factor


@pytest.mark.parametrize(
    ("name", "warmup", "epoch", "factor"),
    [
        ("cosine", 0, 2.5, 0.5 * (1 + math.sqrt(0.5))),
        ("cosine", 2, 1, 0.5 * 0.5 * (1 + math.cos(math.pi / 10))),
        ("step", 0, 6.99, 1),
        ("step", 0, 7, 0.1),
        ("step", 1, 0.25, 0.25),
    ],
)
def test_the_rate_is_a_function_of_the_epoch(small_job, name, warmup, epoch, factor):
    keys = {"schedule": name, "epochs": 10, "warmup_epochs": warmup, "step_at": 0.7}
    assert rate_factor(replace(small_job.train, **keys), epoch) == pytest.approx(factor, abs=1e-12)


def test_muon_takes_matrices_alone(small_job):
    model = nn.ModuleDict({"object_branch": nn.Sequential(nn.Conv1d(4, 4, 3), nn.Linear(4, 4))})
    muon, adamw = build_optimisers(model, replace(small_job.train, muon_lr=0.1))
    assert [len(group["params"]) for group in muon.param_groups] == [1]
    assert sum(len(group["params"]) for group in adamw.param_groups) == 3


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


def test_steps_of_muon_are_those_of_pytorchs():
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
