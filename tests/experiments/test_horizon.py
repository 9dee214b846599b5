"""Differences by horizon, by hand on made-up runs."""

import pandas as pd
import pytest

from experiments.horizon import CUES, DWELL, FIRST, NO_TABLE, SEED, less, predictions, read_ways

RECALL = {"bload": 80.0, "sampling": 78.0, FIRST: 74.0, NO_TABLE: 79.0}


@pytest.fixture
def runs():
    rows = [
        {DWELL: dwell, "way": way, SEED: seed, "recall": 80 + gain * (recall - 80) + seed**2}
        for dwell, gain in ((8.0, 1), (1000.0, 2))
        for way, recall in RECALL.items()
        for seed in (0, 1, 2, *([3] if way == NO_TABLE else []))
    ]
    return pd.DataFrame(rows)


def test_differences_are_of_runs_of_one_seed(runs):
    fresh = less(runs, "sampling")
    assert fresh.dropna().to_numpy().tolist() == [[2, 4]] * 3  # the seeds' own level is gone
    assert less(runs, NO_TABLE).loc[3].isna().all()  # bload has no fourth seed here
    assert less(runs, "ragged").isna().all(axis=None)


def test_predictions_are_differences_of_differences(runs):
    found = {words: of.dropna().tolist() for words, of in predictions(runs).items()}
    growth, first, table, *fixed = found.values()
    assert growth == [4 - 2] * 3
    assert first == [(6 + 12) / 2 - (2 + 4) / 2] * 3
    assert table == [2 - 1] * 3
    assert fixed == [[], []]  # not run


def test_the_control_is_apart_and_ways_are_named_by_their_config(tmp_path):
    table = {
        "loader.name": ["bload", "bload", "sampling", "sampling", "sampling"],
        "loader.place": [None, None, "random", "first", "random"],
        "train.starts": ["table", "ignored", "table", "table", "table"],
        CUES: [0, 0, 0, 0, 0.4],
        **dict.fromkeys(("epochs", "processed", "steps"), 1),
    }
    pd.DataFrame(table).to_csv(tmp_path / "runs.csv", index=False)
    once, again = read_ways(tmp_path)
    assert once.way.tolist() == ["bload", NO_TABLE, "sampling", FIRST]
    assert again.way.tolist() == ["sampling"]
