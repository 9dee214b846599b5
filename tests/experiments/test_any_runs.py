"""Every study of runs tabulates what its folder holds, whatever is missing."""

import importlib
import shutil

import pandas as pd
import pytest

from bload import InputError
from experiments import balance, horizon, open_questions, paper_table, rates
from experiments.rates import DEFAULT, choose
from experiments.study import RESULTS

STUDIES = ("ablations", "convergence", "one_rank", "rates", "tmax_sweep")
HELD = {
    "one run": lambda runs: runs[runs["loader.name"] == "sampling"][:1],
    "one run of bload": lambda runs: runs[runs["loader.name"] == "bload"][:1],
    "two loaders": lambda runs: runs[runs["loader.name"].isin(["mix", "ragged", "bload"])],
    "a quick sweep": lambda runs: runs.drop_duplicates("loader.name").replace("one", "all"),
}
OTHERS = {"balance": balance.learned_table}
OTHERS |= {"open_questions/coherence": lambda at: open_questions.runs_table(at, "dataset.dwell")}


@pytest.fixture(params=HELD)
def folder(request, tmp_path):
    """Committed runs of the loaders, some of them, as if they had been a user's."""
    source = RESULTS / "one_rank"
    runs = pd.read_csv(source / "runs.csv", keep_default_na=False)
    held = HELD[request.param](runs[runs["experiment.name"] == "one_rank"]).assign(split="test")
    curves = pd.read_csv(source / "curves.csv")
    held.to_csv(tmp_path / "runs.csv", index=False)
    curves[curves.run.isin(held.run)].to_csv(tmp_path / "curves.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_makes_its_table_of_any_runs(study, folder):
    table = importlib.import_module(f"experiments.{study}").tables(folder)
    assert "|" in table
    runs = pd.read_csv(folder / "runs.csv")
    several = runs["loader.name"].nunique() > 1
    assert ("Not in this table" in table) == (several and study == "ablations")
    if study == "convergence":  # its curves are of validation videos
        assert "at the end, validation videos" in table
        assert ("sampling clips=all" in table) == ("all" in {*runs["loader.clips"]})


def test_balance_makes_its_table_of_any_runs(folder):
    assert "No finished run of window, queue." in balance.learned_table(folder)


@pytest.mark.parametrize(
    "name", ["ablations", "convergence", "horizon", "rates", "tmax_sweep", *OTHERS]
)
def test_a_study_refuses_runs_that_differ_in_what_its_table_does_not_show(name, tmp_path):
    shutil.copytree(RESULTS / name, tmp_path, dirs_exist_ok=True)
    runs = pd.read_csv(tmp_path / "runs.csv", keep_default_na=False)
    key = "epochs" if name in OTHERS else "train.weight_decay"
    more = runs[:1].assign(run="other", **{key: 9, "train.seed": 99})
    pd.concat([runs, more]).to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(InputError, match=f"differ in {key};"):
        (OTHERS.get(name) or importlib.import_module(f"experiments.{name}").tables)(tmp_path)


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_horizon_makes_its_tables_of_any_runs(held, tmp_path):
    runs = pd.read_csv(RESULTS / "horizon/runs.csv", keep_default_na=False)
    other = held(runs)[:1].assign(run="other", **{"loader.clips": "all", "train.seed": 99})
    pd.concat([held(runs), other]).to_csv(tmp_path / "runs.csv", index=False)
    assert "other).\n\nNo finished run of" in horizon.tables(tmp_path)  # in no table


def test_the_papers_table_has_the_figures_of_the_runs(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["paper_table", str(folder)])
    paper_table.main()
    printed = capsys.readouterr().out
    for loader, runs in pd.read_csv(folder / "runs.csv").groupby("loader.name"):
        clips = runs.get("loader.clips")
        if clips is None or "all" not in {*clips}:
            assert f"{runs.padding.mean():,.0f}" in printed, loader
            assert f"{runs.deleted.mean():,.0f}" in printed, loader
    assert "534,831" not in printed  # the paper's is for other lengths


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
    assert " 0.003 (1 of 2 seeds) |" in rates.tables(tmp_path)
