"""The figures as rows and as text, on three frames that can be counted by hand."""

import numpy as np
import pytest

from datasets.scoring.ranking import KS
from datasets.scoring.recall import RecallMeter
from datasets.scoring.tables import format_comparison, format_recall, relation_rows
from tests.datasets.scoring.drawing import cup_frame

# looking_at (0): found in a and b, missed in c. above (3), written twice in a: found there, missed
# in b. carrying (9) and eating (12): missed in a; eating found in c.
THREE = [
    cup_frame("a", [0, 3, 3, 9, 12], [[0, 3, 14]]),
    cup_frame("b", [0, 3], [[0, 4, 14]]),
    cup_frame("c", [0, 12], [[1, 4, 12]]),
]


@pytest.fixture
def meter():
    meter = RecallMeter()
    meter.update(*zip(*THREE, strict=True))
    return meter


def test_a_row_of_a_relation_is_what_a_hand_counts(meter):
    rows = relation_rows(meter, "run")
    found = {(row["constraint"], row["k"], row["name"]): row for row in rows}
    assert len(found) == len(rows) == 3 * len(KS) * 26
    for name, group, *wanted in (
        ("looking_at", "attention", 3, 3, 2 / 3, 2 / 3),
        ("above", "spatial", 3, 2, 1 / 2, 2 / 3),
        ("carrying", "contacting", 1, 1, 0, 0),
        ("eating", "contacting", 2, 2, 1 / 2, 1 / 2),
        ("wiping", "contacting", 0, 0, np.nan, np.nan),
    ):
        row = found["with", 20, name]
        assert row["group"] == group
        columns = ("triplets", "frames", "recall", "pooled_recall")
        assert [row[column] for column in columns] == pytest.approx(wanted, nan_ok=True)


def test_a_comparison_shows_figures_and_failures_and_memory_where_some_data_have_it(meter):
    figures = meter.summary() | {"t_max": 86, "epoch": 3, "epochs": 5, "frames": 54371.0}
    results = {"1e5": figures | {"with/recall@20_memory": 0.125}, "real": figures}
    header, _, first, second = format_comparison(results).splitlines()
    recall = f"{100 * figures['with/recall@10']:.2f}"
    assert header.endswith("R@20 needs memory")
    assert first.split()[:7] == ["1e5", "86", "3", "of", "5", "54,371", recall]
    assert first.split()[-1] == "12.50"
    assert (second.split()[0], second.split()[-1]) == ("real", "-")
    failed = {"real": figures, "another": {"error": "broken; give another"}}
    assert format_comparison(failed).endswith("another  not evaluated: broken; give another")
    assert "memory" not in format_comparison(failed)
    assert format_recall(figures).splitlines()[2].split()[:3] == ["with", "R", recall]
