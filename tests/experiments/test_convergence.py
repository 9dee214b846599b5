"""Work to reach a level, and what still changes at the end, on curves that are known."""

import math

import pandas as pd
import pytest

from experiments.convergence import loss_fell, recall_rose, times, work_before, work_to


def test_work_to_a_level_is_read_off_a_straight_line_between_evaluations():
    curve = pd.DataFrame({"processed": [100.0, 200, 300], "recall": [40.0, 60, 50]})
    assert work_to(20, curve) == pytest.approx(50)  # from 0 at the beginning
    assert work_to(50, curve) == pytest.approx(150)
    assert math.isnan(work_to(61, curve))
    assert work_to(50, curve.assign(frames=[10, 30, 50]), "frames") == pytest.approx(20)
    assert work_before(50, curve) == 100
    assert math.isnan(work_before(40, curve))


def test_the_fall_of_the_loss_is_over_the_last_two_fifths_of_the_slots():
    curve = pd.DataFrame({"processed": [10, 20, 30, 40, 50], "loss": [9.0, 9, 9, 4, 3]})
    assert loss_fell(curve) == pytest.approx(25)
    inside = pd.DataFrame({"processed": [30, 35, 50], "loss": [4.0, math.nan, 2.0]})
    assert loss_fell(inside) == pytest.approx(loss_fell(inside.dropna()))
    halves = pd.DataFrame({"processed": [35, 50], "loss": [4.0, 2.0]})  # 30 to 40 has both
    assert loss_fell(halves) == pytest.approx(100 * (1 - 2 / 3))


def test_the_rise_of_recall_is_between_the_last_two_fifths_of_the_slots():
    curve = pd.DataFrame({"processed": [10, 35, 40, 45, 50], "recall": [90.0, 60, 62, 63, 64]})
    assert recall_rose(curve) == pytest.approx(2.5)


def test_there_is_no_ratio_of_works_if_one_seed_never_gets_there():
    work, naive = pd.Series([100.0, 50.0]), pd.Series([400.0, 200.0])
    assert times(work, naive, 2) == "0.25 [0.25, 0.25]"
    assert times(work.where(work > 50), naive) == ""
