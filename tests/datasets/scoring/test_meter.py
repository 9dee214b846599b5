"""From ranks to figures, as rows and as text: counts by hand, merging, what is refused."""

import numpy as np
import pytest

from bload.errors import InputError
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


def metered(frames):
    meter = RecallMeter()
    meter.update(*zip(*frames, strict=True))
    return meter


def test_figures_of_relations_and_their_means_are_what_a_hand_counts():
    meter = metered(THREE)
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
    summary = meter.summary()
    assert summary["with/mean_recall@20"] == pytest.approx((2 / 3 + 1 / 2 + 1 / 2) / 26)
    assert summary["with/pooled_mean_recall@20"] == pytest.approx((2 / 3 + 2 / 3 + 1 / 2) / 26)
    assert (summary["frames"], summary["triplets"], summary["relation_classes"]) == (3, 9, 4)


def test_a_comparison_shows_figures_and_failures_and_memory_where_some_data_have_it():
    figures = metered(THREE).summary() | {"t_max": 86, "epoch": 3, "epochs": 5, "frames": 54371.0}
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


def test_a_part_of_the_triplets_has_its_own_recall():
    # Of a only label 9 (missed) and one 3 (found), of b only 0 (found), nothing of c: c is not in
    # the mean then.
    chosen_G, meter = np.array([0, 1, 0, 1, 0, 1, 0, 0, 0], bool), metered(THREE)
    figures = meter.part_summary("memory", chosen_G)
    assert figures["with/recall@20_memory"] == pytest.approx((1 / 2 + 1) / 2)
    assert meter.summary()["with/recall@20"] == pytest.approx((3 / 5 + 1 / 2 + 1 / 2) / 3)
    assert meter.part_summary("memory", np.zeros(9, bool)) == {}


def random_frames(seed, count):
    rng = np.random.default_rng(seed)
    return [
        cup_frame(f"{i:04d}", rng.integers(0, 26, 6), rng.integers(0, 26, (rng.integers(0, 9), 1)))
        for i in range(count)
    ]


def test_merged_ranks_equal_one_meter():
    for world, seed in ((1, 0), (4, 0)):
        frames = random_frames(seed, 61)
        whole = metered(frames).summary()
        deal = np.random.default_rng(seed).integers(world, size=len(frames))
        states = [RecallMeter().state()]  # of a rank without frames
        for rank in range(world):
            own = [frames[i] for i in np.flatnonzero(deal == rank)[::-1]]
            meter = RecallMeter()
            for first in range(0, len(own), 7):
                meter.update(*zip(*own[first : first + 7], strict=True))
            states.append(meter.state())
        assert RecallMeter().merge(states).summary() == whole  # to the last bit
        assert RecallMeter().merge(states[::-1]).summary() == whole


def test_a_frame_counts_once():
    sentence = "frame 'b' was counted already"
    meter = metered(THREE)
    before = meter.summary()
    with pytest.raises(InputError, match=sentence):
        meter.update([THREE[1][0]], [THREE[1][1]])
    with pytest.raises(InputError, match=sentence):
        meter.merge([metered([THREE[1]]).state()])
    assert meter.summary() == before
