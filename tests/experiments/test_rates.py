"""The rate of a loader is chosen on validation videos; ties and small gains leave the default."""

import pandas as pd
import pytest

from experiments.rates import DEFAULT, choose, validation_recall


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


def test_rates_are_compared_by_the_mean_of_seeds_within_a_way_to_train():
    runs = pd.DataFrame({"loader.name": "sampling", "loader.clips": ["one", "all"] * 4})
    runs["train.lr"] = [DEFAULT] * 4 + [2 * DEFAULT] * 4
    runs["validation_recall@20"] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    runs = runs.assign(ranks=2, epochs=1, **{"train.batch_slots": 94, "train.micro_batches": 1})
    table = validation_recall(runs)
    assert table.to_numpy().ravel() == pytest.approx([20, 60, 30, 70])
