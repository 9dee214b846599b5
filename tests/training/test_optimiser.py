"""Rates as a function of progress; which parameters have which, the golden losses tell."""

import math
from dataclasses import replace

import pytest

from training.optimiser import rate_factor


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
