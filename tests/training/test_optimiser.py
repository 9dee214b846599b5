"""Rates as a function of progress; which parameters have which, the golden losses tell."""

import math
from dataclasses import replace

import pytest
from torch import nn

from training.optimiser import build_optimisers, rate_factor


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
