"""Loaders whose epochs differ in size train on equally many slots."""

import json
from copy import deepcopy

import pytest

import train
from experiments.equal_work import equal_work
from experiments.run_folder import run_name
from tests.experiments.jobs import interrupted, metrics, one_rank, only_run

SLOTS = 400


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize(
    ("slots", "an_epoch", "epochs"),
    [(116_360, 10_032, 12), (116_360, 23_220, 5), (116_360, 86_000, 1), (1, 86_000, 1)],
)
def test_epochs_are_the_nearest_whole_number_and_the_warm_up_keeps_its_share(
    slots, an_epoch, epochs
):
    job = {"epochs": 5, "slots": slots, "warmup_epochs": 1}
    assert equal_work(job, an_epoch) == {"epochs": epochs, "warmup_epochs": epochs / 5}


def test_without_slots_epochs_stay_as_they_are():
    assert equal_work({"epochs": 5, "slots": None, "warmup_epochs": 1}, 100) == {}


def test_epochs_counted_twice_are_the_same():
    job = {"epochs": 5, "slots": 1000, "warmup_epochs": 1}
    once = job | equal_work(job, 90)
    assert once["epochs"] == 11
    assert once | equal_work(once, 90) == once


@pytest.mark.parametrize(("loader", "epochs"), [("naive", 1), ("bload", 2), ("sampling", 3)])
def test_runs_of_as_many_slots_differ_in_epochs(config, tmp_path, loader, epochs):
    train.train(config(f"loader={loader}", f"train.slots={SLOTS}", "train.epochs=7"), one_rank())
    folder = only_run(tmp_path / "runs")
    figures = summary(folder)
    assert figures["epochs"] == epochs
    assert abs(epochs * figures["processed"] - SLOTS) <= figures["processed"] / 2
    done = [line["epoch"] for line in metrics(folder) if line["kind"] == "epoch"]
    assert done == [*range(epochs)]
    assert json.loads((folder / "config.json").read_text())["train"]["epochs"] == epochs


def test_a_finished_run_of_slots_is_recognised_and_its_config_left_alone(config, tmp_path, capsys):
    job = config(f"train.slots={SLOTS}")
    given = deepcopy(job)
    train.train(job, one_rank())
    assert job == given
    folder = only_run(tmp_path / "runs")
    assert folder.name == run_name(job, 1)
    before = (folder / "last.pt").stat().st_mtime_ns
    capsys.readouterr()
    train.train(job, one_rank())
    assert "This run had finished before" in capsys.readouterr().out
    assert (folder / "last.pt").stat().st_mtime_ns == before


def test_an_interrupted_run_of_slots_trains_what_epochs_would_have(config, tmp_path):
    # the default is a warm-up of 1 epoch of 5; here the share is kept by hand
    slots = ("train.slots=400", "train.epochs=5", "train.log_every=1")
    with interrupted((1, 1)), pytest.raises(KeyboardInterrupt):
        train.train(config(*slots), one_rank())
    train.train(config(*slots), one_rank())
    epochs = ("train.epochs=2", "train.warmup_epochs=0.4", "train.log_every=1")
    train.train(config(*epochs, runs="epochs"), one_rank())
    one, other = only_run(tmp_path / "runs"), only_run(tmp_path / "epochs")
    assert one.name != other.name
    steps = [
        [line for line in metrics(folder) if line["kind"] != "summary"] for folder in (one, other)
    ]
    assert steps[0] == steps[1]
