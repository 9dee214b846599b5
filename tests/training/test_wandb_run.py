"""What wandb has of a run: names, one axis, every figure once, pictures, in one run of its own."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from glob import glob
from itertools import accumulate
from pathlib import Path

import pytest
import wandb
import yaml
from click.testing import CliRunner
from wandb.cli import cli

import train
from tests.training.jobs import REPOSITORY, interrupted, one_rank
from tests.training.offline_file import OfflineRun
from tests.training.wandb_server import WandbServer
from training.checkpoint import Progress, Start
from training.config import WandbConfig
from training.folder import RunFolder
from training.tracking import Tracker

OFFLINE = WandbConfig("offline")
ASKED = {
    "WANDB_PROJECT": "theirs",
    "WANDB_ENTITY": "team",
    "WANDB_TAGS": "a,b",
    "WANDB_NOTES": "a note",
    "WANDB_JOB_TYPE": "tuning",
    "WANDB_RUN_GROUP": "grouped",
}


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A working directory of the test's own, and no word of wandb's in the environment."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    wandb.teardown()  # it reads the environment once
    yield tmp_path
    wandb.teardown()


def folder(root="runs"):
    made = RunFolder(root, "run")
    made.open(0)
    return made


def written(options=OFFLINE, start=None, root="runs"):
    """What wandb has on the disk of a run of one line."""
    with Tracker(folder(root), {}, options, start or Start(), active=True) as tracker:
        tracker.log("step", 0, 1, loss=0.5)
        place = Path(tracker.wandb.run.dir).parent
    wandb.teardown()
    return OfflineRun(place)


def parts():
    wandb.teardown()
    return [OfflineRun(Path(path)) for path in sorted(glob("wandb/offline-run-*"))]


def later(epochs):
    """Going on after epochs of two steps each."""
    return Start(Progress(epochs=[{"steps": 2}] * epochs), "", Path("last.pt"))


def test_the_environment_says_what_the_config_leaves_open(monkeypatch):
    for name, value in ASKED.items():
        monkeypatch.setenv(name, value)
    run = written(WandbConfig()).run
    names = (run.project, run.entity, [*run.tags], run.notes, run.job_type, run.run_group)
    assert names == ("theirs", "team", ["a", "b"], "a note", "tuning", "grouped")
    assert run.display_name == "run"
    ours = WandbConfig(None, "ours", "us", ["c"], "of ours", "training", "together")
    run = written(ours, root="other").run
    names = (run.project, run.entity, [*run.tags], run.notes, run.job_type, run.run_group)
    assert names == ("ours", "us", ["c"], "of ours", "training", "together")


def test_nothing_said_it_is_offline_in_the_project_bload():
    run = written(WandbConfig()).run
    assert (run.project, run.entity, [*run.tags], run.run_group) == ("bload", "", [], "")


@pytest.mark.parametrize("by", ["environment", "settings"])
def test_wandb_is_disabled_where_its_users_disable_it(by, monkeypatch, place):
    if by == "environment":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    else:
        CliRunner().invoke(cli.disabled)
        wandb.teardown()
    tracker = Tracker(folder(), {}, WandbConfig(), Start(), active=True)
    assert tracker.wandb is None
    tracker.close()
    assert not glob("wandb/*run*")


@pytest.mark.parametrize("name", ["paper_table", "horizon", "frames"])
def test_the_group_of_an_experiment_gives_way_to_the_environment(config, monkeypatch, name):
    assert config(f"experiment={name}").wandb.group == name
    monkeypatch.setenv("WANDB_RUN_GROUP", "grouped")
    assert config(f"experiment={name}").wandb.group == "grouped"
    assert config(f"experiment={name}", "wandb.group=mine").wandb.group == "mine"


def test_no_experiment_names_its_group_past_the_environment():
    for file in Path(REPOSITORY, "configs/experiment").glob("*.yaml"):
        group = yaml.safe_load(file.read_text()).get("wandb", {}).get("group")
        assert group in (None, "${oc.env:WANDB_RUN_GROUP,${experiment.name}}"), file.name


def test_a_folder_keeps_its_run_and_no_two_folders_share_one():
    first, again = written(), written(start=later(1))
    assert again.run.run_id == first.run.run_id
    assert again.folder != first.folder
    anew, elsewhere = written(), written(root="colleague")
    assert len({first.run.run_id, anew.run.run_id, elsewhere.run.run_id}) == 3


def test_the_id_of_a_sweeps_agent_or_of_the_environment_is_taken(monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "of-the-agent")
    assert written().run.run_id == "of-the-agent"
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
    wandb.teardown()
    assert written(root="other").run.run_id == "of-the-agent"
    monkeypatch.delenv("WANDB_RUN_ID")
    monkeypatch.delenv("WANDB_SWEEP_ID")
    assert written(start=later(1)).run.run_id == "of-the-agent"


def test_a_run_that_was_stopped_goes_on_in_wandb_without_a_figure_twice(config, capsys):
    job = config("wandb.mode=offline", "train.log_every=1", "train.checkpoint_every=2")
    with interrupted((1, 3)), pytest.raises(KeyboardInterrupt):
        train.train(job, one_rank())
    train.train(job, one_rank())
    first, second = parts()
    assert first.config["train"]["lr"] == job.train.lr
    assert first.run.run_id == second.run.run_id
    rows = [*first.rows, *second.rows]
    assert [row["_step"] for row in rows] == [*range(len(rows))]
    assert {key: first.axes[key] for key in ("epoch", "*")} == dict.fromkeys(
        ("epoch", "*"), "global_step"
    )

    (metrics,) = Path(job.run.root).glob("*/metrics.jsonl")
    lines = [json.loads(text) for text in metrics.read_text().splitlines()]
    before = [0, *accumulate(line["steps"] for line in lines if line["kind"] == "epoch")]
    for kind, key in (("step", "loss"), ("epoch", "loss"), ("eval", "with/recall@20")):
        expected = [
            (before[line["epoch"]] + line["step"], line["epoch"] + 1, line[key])
            for line in lines
            if line["kind"] == kind
        ]
        sent = [row for row in rows if f"{kind}/{key}" in row]
        found = [(row["global_step"], row["epoch"], row[f"{kind}/{key}"]) for row in sent]
        assert found == expected, kind

    kinds = {"step", "epoch", "eval", "pictures", "figures"}
    keys = {key for row in rows for key in row if key[0] != "_"} - {"global_step", "epoch"}
    assert {key.split("/")[0] for key in keys} == kinds
    page = (REPOSITORY / "docs" / "tracking.md").read_text()
    numbers = [key for key in keys if key.startswith(("step/", "epoch/", "eval/"))]
    documented = re.findall(r"`((?:step|epoch|eval)/\S+)`", page)
    assert not [key for key in numbers if not any(fnmatch(key, one) for one in documented)]
    assert not [one for one in documented if not any(fnmatch(key, one) for key in numbers)]
    sweep = yaml.safe_load((REPOSITORY / "examples" / "wandb_sweep.yaml").read_text())
    assert sweep["metric"]["name"] in keys
    summary = lines[-1]
    check_table(second, {key: of for key, of in summary.items() if isinstance(of, int | float)})
    (blocks,) = [*first.media("pictures/blocks"), *second.media("pictures/blocks")]
    assert blocks.read_bytes().startswith(b"\x89PNG")
    assert second.rows[-1]["global_step"] == before[-1]
    run = Path(metrics.parent)
    (picture,) = second.media("pictures/prediction")
    assert picture.read_bytes() == (run / "prediction.png").read_bytes()
    command = capsys.readouterr().out.split("`")[-2]
    found = glob(command.removeprefix("wandb sync "))
    assert sorted(found) == [str(first.folder), str(second.folder)]


def check_table(run, figures):
    (file,) = run.media("figures")
    table = json.loads(file.read_text())
    assert table["columns"] == ["figure", "value"]
    for word in ("kind", "epoch", "step"):
        figures.pop(word, None)
    assert dict(table["data"]) == figures
    assert all(isinstance(value, int | float) for _, value in table["data"])


ONE_OF_TWO = """
import sys, time
from training.checkpoint import Start
from training.config import WandbConfig
from training.folder import RunFolder
from training.tracking import Tracker
folder = RunFolder("runs", sys.argv[1])
folder.open(0)
with Tracker(folder, {}, WandbConfig(), Start(), active=True) as tracker:
    for step in range(30):
        tracker.log("step", 0, step, loss=float(sys.argv[1]))
        time.sleep(0.1)
"""


@pytest.mark.slow
def test_two_runs_at_a_time_share_the_folder_of_wandb_and_nothing_else(place):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", ONE_OF_TWO]
    with ThreadPoolExecutor(2) as pool:
        at_a_time = (
            pool.submit(subprocess.run, [*command, name], env=environment, check=True, timeout=300)
            for name in ("1", "2")
        )
        for ended in [*at_a_time]:
            ended.result()
    found = {run.run.display_name: run for run in parts()}
    assert len({run.run.run_id for run in found.values()}) == 2
    for name in ("1", "2"):
        assert found[name].column("step/loss") == [float(name)] * 30


@pytest.mark.slow
def test_wandb_sync_in_the_working_directory_sends_a_stopped_run_whole(place):
    with Tracker(folder(), {}, OFFLINE, Start(), active=True) as tracker:
        for step in (1, 2):
            tracker.log("step", 0, step, loss=0.5)
    with Tracker(folder(), {}, OFFLINE, later(1), active=True) as tracker:
        tracker.log("step", 1, 1, loss=0.4)
        identity = tracker.wandb.id
    with WandbServer() as server:
        environment = {**os.environ, **server.environment, "HOME": str(place)}
        command = [Path(sys.executable).with_name("wandb"), "sync", "--yes"]
        subprocess.run(command, env=environment, check=True, timeout=120)
    rows = server.history[identity]
    assert {at: row["global_step"] for at, row in rows.items()} == {0: 1, 1: 2, 2: 3}


@pytest.mark.slow
def test_online_a_run_goes_on_where_it_was_and_says_where_that_is(place, monkeypatch, capsys):
    with WandbServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        for start, line in ((Start(), (0, 2)), (later(1), (0, 2)), (later(1), (1, 1))):
            with Tracker(folder(), {}, WandbConfig("online"), start, active=True) as tracker:
                tracker.log("step", line[0], line[1], loss=0.5)
                identity = tracker.wandb.id
        wandb.teardown()
    assert [row["global_step"] for row in server.history[identity].values()] == [2, 4]
    assert f"/runs/{identity}" in capsys.readouterr().out
