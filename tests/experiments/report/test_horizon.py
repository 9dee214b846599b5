"""What whole videos are worth by horizon: differences by seed, and verdicts as planned."""

from typing import Any

import pytest

from experiments.report.exhibits import Exhibit
from experiments.report.horizon import horizon
from experiments.report.results import read_results
from tests.experiments.report.made_runs import make_run

WORLD = {
    **{"train_videos": 30, "test_videos": 4, "image_size": 32, "seed": 0, "object_classes": 12},
    **{"max_objects": 3, "cue_rate": 0.0, "delay_rate": 0.5, "drop_rate": 0.03},
}
NOISE = (0.0, 0.004, -0.002)


def make_runs(
    folder, recalls: dict[tuple[float, str], float], wobble: float = 0.0, **more: Any
) -> None:
    """Three seeds of each horizon and way, apart by NOISE; those of sampling by `wobble` too."""
    for (dwell, way), recall in recalls.items():
        loader, *option = way.split(" ")
        changes: dict[str, Any] = {f"dataset__{key}": value for key, value in WORLD.items()}
        changes |= more
        if option and option[0].startswith("place="):
            changes["loader__place"] = option[0].removeprefix("place=")
        if option == ["starts=ignored"]:
            changes["train__starts"] = "ignored"
        for seed, noise in enumerate(NOISE):
            share = recall + noise + wobble * (seed - 1) * (way == "sampling")
            make_run(folder, loader, seed, recall=share, dataset__dwell=dwell, **changes)


WAYS = {
    "sampling": -0.02,
    "sampling place=first": -0.06,
    "bload": 0.0,
    "bload starts=ignored": -0.01,
}


def grown(gains: dict[float, float]) -> dict[tuple[float, str], float]:
    """Recall of every way: `WAYS` below that of bload, times a factor by horizon."""
    return {(d, way): 0.8 + by * gain for d, gain in gains.items() for way, by in WAYS.items()}


def exhibits(folder) -> dict[str, Exhibit]:
    return {part.title: part for part in horizon(read_results(folder)) if not isinstance(part, str)}


def test_differences_are_by_seed_and_named_by_their_interval(tmp_path):
    make_runs(tmp_path / "horizon", grown({8: 0.5, 1000: 2.0}))
    table = exhibits(tmp_path)["BLoad, seed by seed, points"].rows
    assert [row["a state lasts"] for row in table] == ["8 frames", "the video"]
    for row, gain in zip(table, (0.5, 2.0), strict=True):
        for heading, points in (("fresh clips", 2), ("first clips", 6), ("no start table", 1)):
            assert row[f"less {heading}"].figure.mean == pytest.approx(gain * points)
            assert row[f"than {heading}"] == "above"
            assert row[f"seeds, {heading}"] == "3"
    remembered = exhibits(tmp_path)["The same on what must be remembered"].rows
    assert remembered[1]["less first clips"].figure.mean == pytest.approx(0.86 * 12)
    few, most = (row["cues cut off by fresh clips, %"].figure.mean for row in table)
    assert 0 < few < most < 100


@pytest.mark.parametrize(
    ("gains", "verdicts"),
    [
        ({8: 0.5, 1000: 2.0}, ["holds", "holds", "holds"]),
        ({8: 2.0, 1000: 0.5}, ["fails", "holds", "fails"]),
        ({8: -2.0, 1000: -3.0}, ["fails", "fails", "fails"]),
    ],
)
def test_predictions_hold_or_fail_with_the_interval(tmp_path, gains, verdicts):
    make_runs(tmp_path / "horizon", grown(gains))
    table = exhibits(tmp_path)["What was predicted"].rows
    assert [row["verdict"] for row in table] == verdicts
    longest, shortest = gains[1000], gains[8]
    by = [2 * (longest - shortest), 4 * (longest + shortest) / 2, longest - shortest]
    assert [row["by, points"].figure.mean for row in table] == pytest.approx(by)


def test_clips_fixed_anywhere_stand_beside_the_others_once_they_have_run(tmp_path):
    make_runs(tmp_path / "horizon", grown({8: 1.0, 1000: 1.0}))
    assert len(exhibits(tmp_path)["What was predicted"].rows) == 3
    make_runs(tmp_path / "horizon", {(d, "sampling place=fixed"): 0.7 for d in (8, 1000)})
    found = exhibits(tmp_path)
    assert found["BLoad, seed by seed, points"].rows[0]["less fixed clips"].figure.mean == (
        pytest.approx(10)
    )
    first, fresh = found["What was predicted"].rows[3:]
    assert first["by, points"].figure.mean == pytest.approx(10 - 6)
    assert fresh["by, points"].figure.mean == pytest.approx(10 - 2)
    assert first["verdict"] == fresh["verdict"] == "holds"


def test_an_interval_that_holds_zero_decides_nothing(tmp_path):
    make_runs(tmp_path / "horizon", grown({8: 0.5, 1000: 2.0}), wobble=0.2)
    found = exhibits(tmp_path)
    rows = found["BLoad, seed by seed, points"].rows
    assert {row["than fresh clips"] for row in rows} == {"undecided"}
    assert found["What was predicted"].rows[0]["verdict"] == "holds"  # the same in both horizons


@pytest.mark.parametrize(("gain", "verdict"), [(0.5, "holds"), (1.0, "undecided"), (2, "fails")])
def test_the_control_is_the_gain_less_that_where_cues_are_repeated(tmp_path, gain, verdict):
    make_runs(tmp_path / "horizon", grown({16: 1.0, 1000: 1.0}))
    assert "The same where cues are repeated" not in exhibits(tmp_path)
    repeated = {key: of for key, of in grown({16: gain}).items() if key[1] in ("sampling", "bload")}
    make_runs(tmp_path / "horizon", repeated, wobble=0.002, dataset__cue_rate=0.4)
    found = exhibits(tmp_path)
    (row,) = found["The same where cues are repeated"].rows
    assert row["BLoad less fresh clips, points"].figure.mean == pytest.approx(2 * gain)
    assert row["with cues shown once"].figure.mean == pytest.approx(2)
    assert row["more, seed by seed"].figure.mean == pytest.approx(2 - 2 * gain)
    assert row["so the gain is the cue's"] == verdict
    assert len(found["Recall@20 by horizon"].rows) == 2  # it has no part in the rest


def test_observers_stand_beside_what_was_reached(tmp_path):
    make_runs(tmp_path / "horizon", grown({8: 1.0, 1000: 1.0}))
    drawn = exhibits(tmp_path)["Recall@20 by horizon"]
    assert drawn.svg
    for row in drawn.rows:
        none, clip, everything = (
            row[f"observer recalls {memory}"].figure.mean
            for memory in ("nothing", "22 frames", "everything")
        )
        assert none < clip <= everything
        assert row["BLoad"].figure.mean == pytest.approx(100 * (0.8 + sum(NOISE) / 3))


def test_runs_that_are_missing_leave_their_figures_out(tmp_path):
    make_runs(tmp_path / "horizon", {(8.0, "bload"): 0.8})
    found = exhibits(tmp_path)
    assert not found["BLoad, seed by seed, points"].rows
    assert {row["verdict"] for row in found["What was predicted"].rows} == {"-"}


def test_without_runs_the_command_is_named(tmp_path):
    assert "experiment=horizon" in str(horizon(read_results(tmp_path))[0])
