"""Every study of runs tabulates what its folder holds, whatever is missing."""

import importlib
import shutil

import pandas as pd
import pytest

from bload import InputError
from experiments import balance, horizon, paper_table
from experiments.study import RESULTS

STUDIES = ("ablations", "convergence", "one_rank", "rates", "tmax_sweep")
HELD = {
    "one run": lambda runs: runs[runs["loader.name"] == "sampling"][:1],
    "one run of bload": lambda runs: runs[runs["loader.name"] == "bload"][:1],
    "two loaders": lambda runs: runs[runs["loader.name"].isin(["mix", "ragged", "bload"])],
    "a quick sweep": lambda runs: runs.drop_duplicates("loader.name"),
}


@pytest.fixture(params=HELD)
def folder(request, tmp_path):
    """Committed runs of the loaders, some of them, as if they had been a user's."""
    source = RESULTS / "one_rank"
    runs = pd.read_csv(source / "runs.csv", keep_default_na=False)
    held = HELD[request.param](runs[runs["experiment.name"] == "one_rank"])
    curves = pd.read_csv(source / "curves.csv")
    held.to_csv(tmp_path / "runs.csv", index=False)
    curves[curves.run.isin(held.run)].to_csv(tmp_path / "curves.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_makes_its_table_of_any_runs(study, folder):
    assert "|" in importlib.import_module(f"experiments.{study}").tables(folder)


def test_balance_makes_its_table_of_any_runs(folder):
    assert "No finished run of window, queue." in balance.learned_table(folder)


@pytest.mark.parametrize("study", ["ablations", "balance", "convergence", "tmax_sweep"])
def test_a_study_refuses_runs_that_differ_in_what_its_table_does_not_show(study, tmp_path):
    name = "balance_learning" if study == "balance" else study
    shutil.copytree(RESULTS / name, tmp_path, dirs_exist_ok=True)
    runs = pd.read_csv(tmp_path / "runs.csv", keep_default_na=False)
    more = runs[:1].assign(run="other", **{"train.lr": 1.0})
    pd.concat([runs, more]).to_csv(tmp_path / "runs.csv", index=False)
    module = importlib.import_module(f"experiments.{study}")
    with pytest.raises(InputError, match=r"does not tell apart .* and other"):
        (balance.learned_table if study == "balance" else module.tables)(tmp_path)


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_horizon_makes_its_tables_of_any_runs(held, tmp_path):
    runs = pd.read_csv(RESULTS / "horizon/runs.csv", keep_default_na=False)
    held(runs).to_csv(tmp_path / "runs.csv", index=False)
    assert "No finished run of" in horizon.tables(tmp_path)


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
