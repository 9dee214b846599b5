"""The rate of a loader is chosen on validation videos; ties and small gains leave the default."""

import pandas as pd
import pytest

from experiments.rates import DEFAULT, choose


@pytest.mark.parametrize(
    ("half", "default", "twice", "chosen"),
    [
        (60.0, 60.0, 60.9, DEFAULT),
        (60.0, 60.0, 61.0, 2 * DEFAULT),
        (63.0, 61.0, 62.0, DEFAULT / 2),
        (0.0, 60.0, float("nan"), DEFAULT),
    ],
)
def test_the_default_rate_stays_unless_another_is_better_by_a_point(half, default, twice, chosen):
    recall = pd.Series([half, default, twice], [DEFAULT / 2, DEFAULT, 2 * DEFAULT])
    assert choose(recall) == chosen
