"""The figures as rows and as text, on three frames that can be counted by hand."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from datasets.scoring.ranking import CONSTRAINTS, KS
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


@pytest.fixture
def rows(meter):
    return relation_rows(meter, "run")


def test_a_row_of_a_relation_or_group_is_what_a_hand_counts(rows):
    found = {(row["constraint"], row["k"], row["name"]): row for row in rows}
    assert len(found) == len(rows) == 3 * len(KS) * (26 + 3)
    for name, group, *wanted in (
        ("looking_at", "attention", 3, 3, 2 / 3, 2 / 3),
        ("above", "spatial", 3, 2, 1 / 2, 2 / 3),
        ("carrying", "contacting", 1, 1, 0, 0),
        ("eating", "contacting", 2, 2, 1 / 2, 1 / 2),
        ("wiping", "contacting", 0, 0, np.nan, np.nan),
        ("attention", "attention", 3, 3, 2 / 3, 2 / 3),
        ("spatial", "spatial", 3, 2, 1 / 2, 2 / 3),
        ("contacting", "contacting", 3, 2, 1 / 2, 1 / 3),
    ):
        row = found["with", 20, name]
        assert (row["kind"], row["group"]) == ("group" if name == group else "relation", group)
        columns = ("triplets", "frames", "recall", "pooled_recall")
        assert [row[column] for column in columns] == pytest.approx(wanted, nan_ok=True)


def test_every_figure_stands_in_its_cell_and_unseen_triplets_where_there_are_any():
    keys = {"recall": "R", "mean_recall": "mR", "pooled_mean_recall": "pooled mR"}
    cells = [(key, f"@{k}", words) for key, words in keys.items() for k in KS]
    cells += [("recall", f"@{k}_unseen", "R unseen") for k in KS]
    table = {(c, *cell): n for n, (c, cell) in enumerate(product(CONSTRAINTS, cells))}
    figures = {f"{c}/{key}{at}": n / 100 for (c, key, at, _), n in table.items()}  # all differ
    for unseen, said in ((64.0, "64 relations"), (0.0, "none in this split")):
        rows = defaultdict(list)
        for (constraint, _, at, words), number in table.items():
            if unseen or "unseen" not in at:
                rows[constraint, words].append(f"{number}.00")
        _, _, *lines, last = format_recall(figures | {"unseen_triplets": unseen}).splitlines()
        assert [line.split() for line in lines] == [
            [constraint, *words.split(), *numbers] for (constraint, words), numbers in rows.items()
        ]
        assert last == f"unseen in training: {said}"


def test_a_comparison_shows_figures_and_failures_and_memory_where_some_data_have_it(meter):
    figures = meter.summary() | {"epoch": 3, "frames": 54371.0}
    results = {
        "1e5": figures | {"with/recall@20_memory": 0.125, "with/recall@20_unseen": 0.25},
        "another": {"error": "broken; give another"},
        "real": figures,
    }
    header, _, first, second, bad = format_comparison(results).splitlines()
    recall = f"{100 * figures['with/recall@10']:.2f}"
    assert header.endswith("R@20 needs memory    R@20 unseen")
    assert header.split()[:3] == ["checkpoint", "epoch", "frames"]
    assert first.split()[:4] == ["1e5", "3", "54,371", recall]
    assert first.split()[-2:] == ["12.50", "25.00"]
    assert (second.split()[0], second.split()[-1]) == ("real", "-")
    assert bad == "another  not evaluated: broken; give another"
    assert "memory" not in format_comparison({"real": figures})
    assert format_comparison({"another": results["another"]}).splitlines()[2:] == [bad]
