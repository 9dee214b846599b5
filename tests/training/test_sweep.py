"""A sweep runs its jobs one after another; what fails costs nothing but itself."""

import functools
import json
import os
import re
import shutil
import signal
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from bload.errors import InputError
from tests.training.jobs import one_rank
from tests.training.test_launch import train_py
from training import cli
from training import config as configs
from training import lock as locking
from training import sweep as sweeping
from training.folder import RunFolder, run_name
from training.lock import lock
from training.provenance import write_record
from training.stopping import Stopped
from training.sweep import jobs_of, sweep

EXPERIMENT = """\
# @package _global_
defaults:
  - override /loader: naive

experiment:
  name: lengths
run:
  root: {root}
wandb:
  group: lengths
train:
  seed: 3
hydra:
  sweeper:
    params:
      loader: naive,bload
      train.seed: range(0,2)
"""
SUMMARY = {"padding": 7, "deleted": 0, "epoch_seconds": 1.5, "with/recall@20": 0.25}
SUMMARY |= {"t_max": 9, "processed": 9, "frames": 2, "epochs": 1, "train_seconds": 2}


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """The configs with an experiment of four jobs; the folder of its runs."""
    folder = tmp_path / "configs"
    shutil.copytree(configs.CONFIGS, folder)
    root = tmp_path / "runs" / "lengths"
    (folder / "experiment" / "lengths.yaml").write_text(EXPERIMENT.format(root=root))
    for module in (cli, configs):
        monkeypatch.setattr(module, "CONFIGS", folder)
    configs.register()
    return root


@pytest.fixture
def trained(monkeypatch):
    """The loader, seed and ranks of jobs that were trained.

    A job fails if its loader and seed are in `fails`, and ends by `end` if in `stops`.
    """

    def train(nproc, overrides):
        config = composed("train", overrides)
        job = (config.loader.name, config.train.seed)
        trained.append((*job, nproc))
        train.seen()
        if job in fails:
            raise InputError("this one cannot be trained")
        if job in stops:
            raise train.end
        folder = RunFolder(config.run.root, run_name(config, nproc))
        with lock(folder.path, one_rank()):  # as a rank takes it
            pass
        folder.open(0)
        folder.write_json(folder.config, asdict(config))
        folder.write_json(folder.summary, SUMMARY)
        folder.error.unlink(missing_ok=True)

    composed = functools.cache(cli.check_overrides)  # it takes a fifth of a second
    trained, fails, stops = [], set(), set()
    monkeypatch.setattr(sweeping, "launch", train)
    monkeypatch.setattr(sweeping, "check_overrides", composed)
    train.jobs, train.fails, train.stops, train.seen = trained, fails, stops, lambda: None
    train.end = KeyboardInterrupt()
    return train


@pytest.fixture
def reports(monkeypatch):
    """The `folders` for which a report was wanted, and the `error` that writing one raises."""

    def write_report(folder):
        made.folders.append(folder)
        if made.error:
            raise made.error
        return SimpleNamespace(html=folder / "report.html")

    made = SimpleNamespace(folders=[], error=None, write_report=write_report)
    monkeypatch.setitem(sys.modules, "experiments.report.page", made)
    return made


def test_an_experiment_has_the_jobs_of_its_file_and_overrides_the_defaults(experiment):
    jobs = jobs_of(["experiment=lengths", "train.epochs=1"])
    assert [str(job) for job in jobs] == [
        f"loader={loader} train.seed={seed}" for loader in ("naive", "bload") for seed in (0, 1)
    ]
    assert {job.config.wandb.group for job in jobs} == {"lengths"}
    assert {job.folder.path.parent for job in jobs} == {experiment}
    assert len({job.folder.path for job in jobs}) == 4
    # What is typed goes before the file, also where the file has a list.
    (job,) = jobs_of(["experiment=lengths", "train.seed=5", "loader=mix"])
    assert (job.config.loader.name, job.config.train.seed) == ("mix", 5)
    assert job.varied == ("loader=mix", "train.seed=5")
    assert job.folder.path.name == run_name(job.config, 1)


def test_jobs_that_cannot_be_are_reported_before_any_starts(
    experiment, trained, monkeypatch, capsys
):
    for line, names in {
        "experiment=length": ["'length'", "lengths"],
        "experiment=lengths,lengths": ["'lengths,lengths'"],
        "experimnt=lengths": ["'experimnt'", "experiment?"],
        "experiment=lengths train.epoch=3": ["'train.epoch'", "train.epochs?"],
        "loader=naive,bload train.epoch=1,2": ["'train.epoch'", "train.epochs?"],
        "loader=naive,blod": [
            "loader 'blod'",
            "bload, bload_exact, bucket, mix, naive, ragged, sampling, single",
        ],
        "train.epochs=3,many": ["train.epochs is 'many'", "a whole number"],
        "train.starts=table,nowhere": ["'nowhere'"],
        "train.workers=1,2": ["'train.workers=1'", "'train.workers=2'"],
        "train.seed=0,1 run.name=mine": ["runs/mine"],
        "train.lr=interval(0,1)": ["RANGE"],
    }.items():
        monkeypatch.setattr(sys, "argv", ["train.py", "-m", *line.split()])
        with pytest.raises(SystemExit) as end:
            cli.run(pytest.fail, "train")
        assert end.value.code == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert all(name in said for name in names), said
    assert not trained.jobs
    assert not experiment.exists()


def read_record(experiment):
    return json.loads((experiment / "experiment.json").read_text())


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (Stopped(signal.SIGUSR1), 138)]
)
def test_a_signal_stops_the_sweep_which_says_where_and_keeps_what_it_trained(
    experiment, trained, reports, capsys, error, status
):
    trained.stops.add(("bload", 0))
    trained.end = error
    with pytest.raises(SystemExit) as end:
        sweep(["experiment=lengths", "train.seed=0,1"])
    assert end.value.code == status
    assert [job[:2] for job in trained.jobs] == [("naive", 0), ("naive", 1), ("bload", 0)]
    assert "job 3 of 4" in capsys.readouterr().err
    (made,) = read_record(experiment)["sweeps"]
    assert [run.split("-")[0] for run in made["runs"]] == ["naive", "naive"]
    assert made["ended"]


def test_a_run_that_another_sweep_trains_is_not_noted_as_failed(
    experiment, trained, reports, monkeypatch, capsys
):
    monkeypatch.setattr(locking, "WAIT", 0.0)
    (job,) = jobs_of(["experiment=lengths", "train.seed=0", "loader=naive"])
    with lock(job.folder.path, one_rank()), pytest.raises(SystemExit):
        sweep(["experiment=lengths", "train.seed=0", "loader=naive"])
    assert "is in use by process" in capsys.readouterr().err
    assert not job.folder.error.exists()


def test_the_record_of_an_experiment_says_with_what_and_grows(experiment, trained, reports):
    seen = []
    trained.seen = lambda: seen.extend(read_record(experiment)["sweeps"])
    sweep(["experiment=lengths", "train.seed=0", "train.epochs=1"])
    first = read_record(experiment)
    assert set(first) == {"name", "jobs", "sweeps"}
    assert [job["overrides"] for job in first["jobs"]] == [
        ["loader=naive", "train.seed=0"],
        ["loader=bload", "train.seed=0"],
    ]
    assert {job["run"] for job in first["jobs"]} == {p.parent.name for p in experiment.glob("*/*")}
    (made,) = first["sweeps"]
    assert made["command"].endswith(" -m experiment=lengths train.seed=0 train.epochs=1")
    assert set(made["machine"]) == {"cpu", "cores", "gpu", "memory_gib", "system"}
    assert set(made["versions"]) == {"python", "torch", "torchvision", "numpy", "bload"}
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", made["git"])
    assert made["started"] <= made["ended"]
    assert made["runs"] == [job["run"] for job in first["jobs"]]
    # A command that is killed has named the run that it was at.
    assert [(one["runs"], one["ended"]) for one in seen] == [
        (made["runs"][:1], None),
        (made["runs"], None),
    ]

    sweep(["experiment=lengths", "train.seed=0,4", "train.epochs=1"])
    second = read_record(experiment)
    assert second["jobs"][:2] == first["jobs"]
    assert second["sweeps"][0] == made
    assert second["sweeps"][1]["runs"] == [job["run"] for job in second["jobs"][2:]]
    assert len(second["jobs"]) == 4


def test_a_damaged_record_is_named_and_not_written_over(tmp_path):
    path = tmp_path / "experiment.json"
    path.write_text('{"name": "len')
    with pytest.raises(InputError, match=r"experiment\.json"):
        write_record(path, {"name": "lengths", "jobs": [], "sweeps": []})
    assert path.read_text() == '{"name": "len'


@pytest.mark.slow
@pytest.mark.dist
def test_ctrl_c_in_training_ends_the_whole_sweep(command_line):
    process = train_py("-m", *command_line("train.epochs=500", "train.seed=0,1"))
    for line in process.stdout:
        if "epoch   2/" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "job 1 of 2" in err
    assert len(err.splitlines()) <= 3
