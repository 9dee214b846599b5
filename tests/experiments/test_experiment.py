"""`train.py experiment=NAME` for experiments that are not trainings."""

import inspect
import json
from datetime import datetime
from importlib import import_module

import pytest

from bload import InputError
from experiments import start_experiment as experiment
from experiments.cli import CONFIGS, check_overrides
from experiments.config import without
from experiments.kinds import KINDS, run_experiment
from experiments.start_experiment import start_experiment
from tests.experiments.jobs import compose_config

NAMES = [f"{kind}{form}" for kind in KINDS for form in ("", "_quick")]


@pytest.mark.parametrize("name", NAMES)
def test_a_config_holds_the_options_of_its_experiment(name):
    config = compose_config("train", [f"experiment={name}"])
    kind = name.removesuffix("_quick")
    assert config["experiment"]["name"] == name
    assert config["experiment"]["kind"] == kind
    assert config["run"]["root"] == f"runs/{name}"
    known = inspect.signature(import_module(f"experiments.{kind}").run).parameters
    assert set(without(config["experiment"], "name", "kind")) <= set(known)
    header = (CONFIGS / "experiment" / f"{name}.yaml").read_text().split("defaults:")[0]
    assert f"python train.py experiment={name}\n" in header


def test_misspelt_options_are_found_before_anything_starts():
    with pytest.raises(InputError, match=r"did you mean experiment\.timeout"):
        check_overrides("train", ["experiment=deadlock", "experiment.timeuot=3"])
    with pytest.raises(InputError, match="there is no experiment 'deadlok'"):
        check_overrides("train", ["experiment=deadlok"])
    check_overrides("train", ["experiment=length_variance", "experiment.longest=[20,40]"])


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"experiment\.kind is 'dance'; choose train or one of"):
        run_experiment("dance", tmp_path, {"command": "typed"})


def test_an_experiment_that_fails_ends_with_status_1(monkeypatch):
    config = compose_config("train", ["experiment=deadlock_quick"])
    seen = []
    monkeypatch.setattr(experiment, "run_experiment", lambda *a, **o: seen.append((a, o)))
    with pytest.raises(SystemExit, match="1"):
        start_experiment(config)
    ((kind, folder, record), options) = seen[0]
    assert (kind, str(folder)) == ("deadlock", "runs/deadlock_quick")
    assert options["timeout"] == config["experiment"]["timeout"]
    assert record["name"] == "deadlock_quick"
    assert datetime.fromisoformat(record["started"]).tzinfo


def test_what_was_measured_says_its_name_and_when_it_ran(tmp_path):
    options = ["longest=[20]", "sequences=[8]", "rows=[2]", "parts=[2]"]
    lines = [f"experiment.{option}" for option in options]
    start_experiment(
        compose_config("train", ["experiment=length_variance", f"run.root={tmp_path}", *lines])
    )
    content = json.loads((tmp_path / "length_variance.json").read_text())
    assert content["name"] == "length_variance"
    assert content["started"] <= content["ended"]


def test_experiments_refuse_ranks(monkeypatch):
    config = compose_config("train", ["experiment=deadlock"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"python train\.py experiment=deadlock"):
        start_experiment(config)
