"""The figures as rows and as text, on three frames that can be counted by hand."""

import csv

import numpy as np
import pytest

from datasets.annotations.targets import FrameTargets
from datasets.scoring.recall import KS, FramePrediction, RecallMeter
from datasets.scoring.tables import (
    ROW_KEYS,
    format_comparison,
    format_recall,
    format_relations,
    relation_rows,
    write_relations,
)

BOX = np.array([(0, 0, 99, 99)], np.float32)


def frame(name, labels, said):
    """One cup with `labels`; the model says of it the relation `said` of each group."""
    scores_1R = np.full((1, 26), 0.01)
    scores_1R[0, said] = 0.95
    prediction = FramePrediction(BOX, BOX, np.array([11]), np.ones(1), np.ones(1), scores_1R)
    labels_G2 = np.array([(0, label) for label in labels])
    return prediction, FrameTargets(name, (100, 100), BOX[0], BOX, np.array([11]), labels_G2)


# looking_at (0): found in a and b, missed in c. above (3), written twice in a: found there, missed
# in b. carrying (9) and eating (12): missed in a; eating found in c.
THREE = [
    frame("a", [0, 3, 3, 9, 12], [0, 3, 14]),
    frame("b", [0, 3], [0, 4, 14]),
    frame("c", [0, 12], [1, 4, 12]),
]


@pytest.fixture
def meter():
    meter = RecallMeter()
    meter.update(*zip(*THREE, strict=True))
    return meter


@pytest.fixture
def rows(meter):
    return relation_rows(meter, "run")


def row_of(rows, name, k=20):
    (row,) = (r for r in rows if (r["constraint"], r["k"], r["name"]) == ("with", k, name))
    return {key: row[key] for key in ("triplets", "frames", "recall", "pooled_recall")}


@pytest.mark.parametrize(
    ("name", "triplets", "frames", "recall", "pooled"),
    [
        ("looking_at", 3, 3, 2 / 3, 2 / 3),
        ("above", 3, 2, 1 / 2, 2 / 3),
        ("carrying", 1, 1, 0, 0),
        ("eating", 2, 2, 1 / 2, 1 / 2),
        ("wiping", 0, 0, None, None),
        ("attention", 3, 3, 2 / 3, 2 / 3),
        ("spatial", 3, 2, 1 / 2, 2 / 3),
        ("contacting", 3, 2, 1 / 2, 1 / 3),
    ],
)
def test_a_row_of_a_relation_or_group_is_what_a_hand_counts(
    rows, name, triplets, frames, recall, pooled
):
    got = row_of(rows, name)
    assert (got["triplets"], got["frames"]) == (triplets, frames)
    assert (got["recall"], got["pooled_recall"]) == pytest.approx((recall, pooled))


def test_there_is_a_row_for_every_constraint_k_relation_and_group(rows):
    keys = {(row["constraint"], row["k"], row["kind"], row["name"]) for row in rows}
    assert len(keys) == len(rows) == 3 * len(KS) * (26 + 3)


def test_the_mean_of_the_rows_is_the_mean_recall(meter, rows):
    summary = meter.summary()
    for column, measure in (("recall", "mean_recall"), ("pooled_recall", "pooled_mean_recall")):
        for c in ("with", "semi", "no"):
            own = [r for r in rows if (r["constraint"], r["k"], r["kind"]) == (c, 50, "relation")]
            mean = sum(row[column] or 0 for row in own) / 26
            assert mean == pytest.approx(summary[f"{c}/{measure}@50"], rel=1e-15)


def test_triplets_of_relations_add_up_to_the_ground_truth(meter, rows):
    for kind in ("relation", "group"):
        own = [r for r in rows if (r["constraint"], r["k"], r["kind"]) == ("no", 10, kind)]
        assert sum(row["triplets"] for row in own) == meter.summary()["triplets"]


def test_the_csv_holds_the_rows_to_the_last_digit(rows, tmp_path):
    write_relations(tmp_path / "relations.csv", rows)
    with (tmp_path / "relations.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert tuple(read[0]) == ROW_KEYS
    as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert read == as_text
    recalls = [(float(r["recall"]) if r["recall"] else None) for r in read]
    assert recalls == [row["recall"] for row in rows]


def test_the_table_has_a_line_for_each_constraint_and_measure(meter):
    summary = meter.summary()
    lines = format_recall(summary).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["with"] * 3 + ["semi"] * 3 + ["no"] * 3
    recalls = [f"{100 * summary[f'with/recall@{k}']:.2f}" for k in KS]
    assert lines[2].split() == ["with", "R", *recalls]


def test_the_relations_table_shows_percent_and_ground_truth(meter):
    text = format_relations(meter)
    assert "ATTENTION       66.7       3   SPATIAL         50.0       3   CONTACTING" in text
    assert "wiping" in text
    assert len(text.splitlines()) == 1 + 1 + 17
    assert max(map(len, text.splitlines())) <= 100


def test_a_comparison_says_figures_and_failures(meter):
    results = {"run": meter.summary(), "another": {"error": "broken; give another"}}
    _, _, good, bad = format_comparison(results).splitlines()
    assert good.split()[:3] == ["run", "3", f"{100 * meter.summary()['with/recall@10']:.2f}"]
    assert bad.split(maxsplit=1) == ["another", "not evaluated: broken; give another"]


def test_a_comparison_has_recall_on_memory_where_some_data_have_it(meter):
    figures = meter.summary()
    results = {"run": figures | {"with/recall@20_memory": 0.125}, "real": figures}
    header, _, first, second = format_comparison(results).splitlines()
    assert header.endswith("memory R@20")
    assert first.endswith(" 12.50")
    assert second.endswith(" nan")
    assert "memory" not in format_comparison({"real": figures})
