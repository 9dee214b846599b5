"""What still changes at the end, on curves that are known."""

import pandas as pd
import pytest

from experiments.convergence import loss_fell, recall_rose


def test_the_fall_of_the_loss_is_over_the_last_two_fifths_of_the_slots():
    curve = pd.DataFrame({"processed": [10, 20, 30, 40, 50], "loss": [9.0, 9, 9, 4, 3]})
    assert loss_fell(curve) == pytest.approx(25)
    halves = pd.DataFrame({"processed": [35, 50], "loss": [4.0, 2.0]})  # 30 to 40 has both
    assert loss_fell(halves) == pytest.approx(100 * (1 - 2 / 3))


def test_the_rise_of_recall_is_between_the_last_two_fifths_of_the_slots():
    curve = pd.DataFrame({"processed": [10, 35, 40, 45, 50], "recall": [90.0, 60, 62, 63, 64]})
    assert recall_rose(curve) == pytest.approx(2.5)
