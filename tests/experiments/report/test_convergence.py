"""Work to reach a level, and whether a loss is flat, on curves that are known."""

import math

import pandas as pd
import pytest

from experiments.report.convergence import (
    convergence,
    loss_fell,
    recall_rose,
    work_beside_naive,
    work_to,
)
from experiments.report.results import read_results
from tests.experiments.report.made_runs import make_run


def test_work_to_a_level_is_read_off_a_straight_line_between_evaluations():
    curve = pd.DataFrame({"processed": [100.0, 200, 300], "recall": [40.0, 60, 50]})
    assert work_to(20, curve) == pytest.approx(50)  # from 0 at the beginning
    assert work_to(50, curve) == pytest.approx(150)
    assert work_to(60, curve) == pytest.approx(200)
    assert math.isnan(work_to(61, curve))
    assert work_to(50, curve.assign(frames=[10, 30, 50]), "frames") == pytest.approx(20)


def test_the_fall_of_the_loss_is_over_the_last_two_fifths_of_the_slots():
    curve = pd.DataFrame({"processed": [10, 20, 30, 40, 50], "loss": [9.0, 9, 9, 4, 3]})
    assert loss_fell(curve) == pytest.approx(25)
    inside = pd.DataFrame({"processed": [30, 35, 50], "loss": [4.0, float("nan"), 2.0]})
    assert loss_fell(inside) == pytest.approx(loss_fell(inside.dropna()))
    halves = pd.DataFrame({"processed": [35, 50], "loss": [4.0, 2.0]})  # 30 to 40 has both
    assert loss_fell(halves) == pytest.approx(100 * (1 - 2 / 3))


def test_the_rise_of_recall_is_between_the_last_two_fifths_of_the_slots():
    slots = [10, 20, 30, 35, 40, 45, 50]
    recall = [90.0, 90, 90, 60, 62, 63, 64]
    assert recall_rose(pd.DataFrame({"processed": slots, "recall": recall})) == pytest.approx(2.5)
    few = pd.DataFrame({"processed": [25, 50], "recall": [1.0, 2.0]})
    assert math.isnan(recall_rose(few))


def test_the_work_to_one_level_is_beside_naives_by_seed(tmp_path):
    for seed in (0, 1, 2):
        for loader, recall in (("naive", 0.6), ("bload", 0.6), ("sampling", 0.3)):
            make_run(tmp_path / "convergence", loader, seed, recall=recall + 0.01 * seed)
    results = read_results(tmp_path)
    _, table, _ = convergence(results)
    naive, sampling, bload = table.rows
    assert [row["loader"] for row in table.rows] == ["naive", "sampling", "BLoad"]
    # Curves of one shape: the work differs as the slots of an epoch do, 23,272 to 86,000.
    assert bload["share of naive's"].figure.mean == pytest.approx(23_272 / 86_000)
    assert naive["share of naive's"].figure.mean == 1
    assert bload["in frames"].figure.mean == pytest.approx(1)  # epochs of as many frames
    assert sampling["share of naive's"] == sampling["slots to it"] == "-"  # it never gets there
    reach = [row["reach the common level"] for row in table.rows]
    assert reach == ["3 of 3", "0 of 3", "3 of 3"]
    assert bload["less naive, points"].figure.mean == pytest.approx(0, abs=1e-9)
    assert sampling["less naive, points"].figure.mean == pytest.approx(-30)
    assert work_beside_naive(results)["bload"].mean == pytest.approx(23_272 / 86_000)
    assert {row["flat"] for row in table.rows} == {"0 of 3"}


@pytest.mark.parametrize(
    ("bload", "sampling", "wobble", "verdicts"),
    [
        (0.0, -0.1, 0.005, ["holds, within 1.2", "holds", "holds"]),
        (0.1, 0.2, 0.002, ["fails", "fails", "holds"]),
        (0.0, -0.01, 0.2, ["holds, within 49.7", "undecided", "-"]),  # two of three reach the level
        (-0.3, -0.4, 0.002, ["fails", "holds", "fails"]),  # bload never does
    ],
)
def test_predictions_are_decided_by_their_intervals(tmp_path, bload, sampling, wobble, verdicts):
    for seed in (0, 1, 2):
        noise = wobble * (seed - 1)
        for loader, recall in (("naive", 0), ("bload", bload + noise), ("sampling", sampling)):
            warm_up = 0.1 if loader == "naive" else 0.3  # with more slots, to warm up as long
            options = {"train__warmup_epochs": warm_up, "recall": 0.6 + recall}
            make_run(tmp_path / "convergence", loader, seed, **options)
    *_, table = convergence(read_results(tmp_path))
    assert [row["verdict"] for row in table.rows] == [*verdicts, "-"]
    at_least, found = (table.rows[row]["figure"].figure for row in (3, 2))
    if verdicts[2] == "holds":
        assert at_least.mean < found.mean
    else:
        assert at_least is found is None  # no ratio of those that did get there alone


def test_without_runs_the_command_is_named(tmp_path):
    assert "experiment=convergence" in str(convergence(read_results(tmp_path))[0])
    assert work_beside_naive(read_results(tmp_path)) == {}
