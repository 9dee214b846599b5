"""The figures of an epoch, and how they are printed."""

import pytest

from bload import Plan
from bload.schedule.balance import make_schedule
from training.figures import imbalance


def test_the_fullest_rank_of_each_step_makes_the_imbalance():
    plan = Plan(6, [6, 2, 4, 3], [0, 1, 2, 3], [0] * 4, [6, 2, 4, 3], [0, 1, 2, 3, 4])
    schedule = make_schedule(plan, 2)
    assert imbalance(schedule, skips_padding=False) == 1
    assert imbalance(schedule, skips_padding=True) == pytest.approx((6 + 4) / (4 + 3.5))
