"""The rate of a loader is chosen on validation videos; ties and small gains leave the default."""

import pandas as pd
import pytest

from experiments.rates import DEFAULT, choose, tables
from experiments.study import RESULTS


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


def test_a_choice_is_of_seeds_that_have_all_rates(tmp_path):
    runs = pd.read_csv(RESULTS / "rates/runs.csv", keep_default_na=False)
    runs["validation_recall@20"] = runs["validation_recall@20"].mask(runs.ranks == 2)
    runs[runs.run != "mix-lr0.0015-s0"].to_csv(tmp_path / "runs.csv", index=False)
    assert " 0.003 (1 of 2 seeds) |" in tables(tmp_path)
