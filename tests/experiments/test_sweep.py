"""A sweep runs its jobs one after another; what fails costs nothing but itself."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bload.errors import InputError
from experiments import cli
from experiments import sweep as sweeping
from experiments.run_folder import run_name
from experiments.sweep import jobs_of, sweep
from tests.experiments.jobs import REPOSITORY

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


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """The configs with an experiment of four jobs; the folder of its runs."""
    configs = tmp_path / "configs"
    shutil.copytree(cli.CONFIGS, configs)
    (configs / "experiment").mkdir(exist_ok=True)
    root = tmp_path / "runs" / "lengths"
    (configs / "experiment" / "lengths.yaml").write_text(EXPERIMENT.format(root=root))
    monkeypatch.setattr(cli, "CONFIGS", configs)
    monkeypatch.setattr(sweeping, "CONFIGS", configs)
    return root


@pytest.fixture
def trained(monkeypatch):
    """The configs of the jobs that were trained; one fails if its loader and seed are in `fails`,
    and one in `stops` ends by Ctrl-C."""

    def train(run, config, nproc):
        job = (config["loader"]["name"], config["train"]["seed"])
        trained.append((*job, nproc))
        if job in fails:
            raise InputError("this one cannot be trained")
        if job in stops:
            raise KeyboardInterrupt
        folder = sweeping.RunFolder(config["run"]["root"], run_name(config, nproc))
        folder.open(0)
        folder.write_json(folder.summary, SUMMARY)
        folder.error.unlink(missing_ok=True)

    trained, fails, stops = [], set(), set()
    monkeypatch.setattr(sweeping, "launch", train)
    train.jobs, train.fails, train.stops = trained, fails, stops
    return train


@pytest.fixture
def reports(monkeypatch):
    """The folders of which a report was wanted."""
    folders = []

    def write_report(folder):
        folders.append(folder)
        return SimpleNamespace(html=folder / "report.html")

    monkeypatch.setitem(
        sys.modules, "experiments.report", SimpleNamespace(write_report=write_report)
    )
    return folders


def test_an_experiment_has_the_jobs_of_its_file_and_overrides_the_defaults(experiment):
    jobs = jobs_of(["experiment=lengths", "train.epochs=1"])
    assert [str(job) for job in jobs] == [
        f"loader={loader} train.seed={seed}" for loader in ("naive", "bload") for seed in (0, 1)
    ]
    assert {job.config["wandb"]["group"] for job in jobs} == {"lengths"}
    assert {job.folder.path.parent for job in jobs} == {experiment}
    assert len({job.folder.path for job in jobs}) == 4
    # What is typed goes before the file, also where the file has a list.
    (job,) = jobs_of(["experiment=lengths", "train.seed=5", "loader=mix"])
    assert (job.config["loader"]["name"], job.config["train"]["seed"]) == ("mix", 5)
    assert job.varied == ("loader=mix", "train.seed=5")


def test_jobs_have_the_names_of_runs_started_alone(command_line, config):
    one, other = jobs_of(command_line("train.seed=0,1", "launch.nproc=2"))
    assert one.folder.path.name == run_name(config("train.seed=0"), 2)
    assert other.folder.path.name == run_name(config("train.seed=1"), 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["experiment=length"], "there is no experiment 'length'; choose one of "),
        (["experimnt=lengths"], "no config key 'experimnt'; did you mean experiment?"),
        (["experiment=lengths", "train.epoch=3"], "'train.epoch'; did you mean train.epochs?"),
        (["loader=naive,blod"], "there is no loader 'blod'; choose one of bload"),
        (["train.epochs=3,many"], "cannot set train.epochs=many"),
        (["train.starts=table,nowhere"], "nowhere"),
        (["train.workers=1,2"], "'train.workers=1' and 'train.workers=2' are the same run"),
        (["train.seed=0,1", "run.name=mine"], "are the same run, runs/mine; vary a key"),
        (["experiment=lengths,lengths"], "experiment has several values"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_job_that_cannot_be_is_told_before_any_starts(
    experiment, trained, monkeypatch, capsys, arguments, says
):
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.run(pytest.fail, "train", lambda jobs: sweep(pytest.fail, jobs))
    assert end.value.code == 2
    assert says in capsys.readouterr().err
    assert not trained.jobs
    assert not experiment.exists()


def test_a_failed_job_is_noted_and_the_others_go_on(experiment, trained, reports, capsys):
    trained.fails |= {("naive", 1), ("bload", 0)}
    with pytest.raises(SystemExit) as end:
        sweep(None, ["experiment=lengths", "launch.nproc=2"])
    assert end.value.code == 1
    assert trained.jobs == [("naive", 0, 2), ("naive", 1, 2), ("bload", 0, 2), ("bload", 1, 2)]
    out, err = capsys.readouterr()
    assert out.startswith("lengths: 4 jobs (loader naive, bload; train.seed 0, 1) -> ")
    assert re.search(r"^2 of 4: loader=naive train.seed=1 -> \S+/naive-dds_tiny", out, re.M)
    assert err.splitlines()[-3:] == [
        "train.py: error: 2 of 4 jobs failed",
        "  loader=naive train.seed=1: this one cannot be trained",
        "  loader=bload train.seed=0: this one cannot be trained",
    ]
    errors = sorted(experiment.glob("*/error.json"))
    assert len(errors) == 2
    assert json.loads(errors[0].read_text())["error"] == "this one cannot be trained"
    assert reports == [experiment]

    # The second time only those run, and nothing remembers that they failed.
    trained.jobs.clear()
    trained.fails.clear()
    sweep(None, ["experiment=lengths", "launch.nproc=2"])
    assert trained.jobs == [("naive", 1, 2), ("bload", 0, 2)]
    out = capsys.readouterr().out
    assert out.count("finished before, ") == 2
    assert out.count(" 25.00 %") == 4
    assert not list(experiment.glob("*/error.json"))


def test_trained_anew_if_asked_to(trained, command_line):
    for _ in range(2):
        sweep(None, command_line("train.seed=0,1", "run.resume=never"))
    assert [seed for _, seed, _ in trained.jobs] == [0, 1, 0, 1]


def test_ctrl_c_stops_the_sweep_and_says_where(trained, command_line, capsys):
    trained.stops.add(("bload", 1))
    with pytest.raises(SystemExit) as end:
        sweep(None, command_line("train.seed=0,1,2"))
    assert end.value.code == 130
    assert [seed for _, seed, _ in trained.jobs] == [0, 1]
    assert "stopped in job 2 of 3; the same command goes on there" in capsys.readouterr().err


def read_record(experiment):
    return json.loads((experiment / "experiment.json").read_text())


def test_the_record_of_an_experiment_says_with_what_and_grows(experiment, trained, reports):
    sweep(None, ["experiment=lengths", "train.seed=0", "train.epochs=1"])
    first = read_record(experiment)
    assert set(first) == {"name", "jobs", "sweeps"}
    assert [job["overrides"] for job in first["jobs"]] == [
        ["loader=naive", "train.seed=0"],
        ["loader=bload", "train.seed=0"],
    ]
    assert {job["run"] for job in first["jobs"]} == {p.parent.name for p in experiment.glob("*/*")}
    (made,) = first["sweeps"]
    assert made["command"] == "python train.py -m experiment=lengths train.seed=0 train.epochs=1"
    assert set(made["machine"]) == {"cpu", "cores", "gpu", "memory_gib", "system"}
    assert set(made["versions"]) == {"python", "torch", "torchvision", "numpy", "bload"}
    assert made["started"] <= made["ended"]
    assert made["runs"] == [job["run"] for job in first["jobs"]]

    sweep(None, ["experiment=lengths", "train.seed=0,4", "train.epochs=1"])
    second = read_record(experiment)
    assert second["jobs"][:2] == first["jobs"]
    assert second["sweeps"][0] == made
    assert second["sweeps"][1]["runs"] == [job["run"] for job in second["jobs"][2:]]
    assert len(second["jobs"]) == 4


def test_a_command_that_trained_nothing_is_recorded_only_alone(experiment, trained, reports):
    trained.fails |= {("naive", 0), ("bload", 0)}
    for _ in range(2):
        with pytest.raises(SystemExit):
            sweep(None, ["experiment=lengths", "train.seed=0"])
    (alone,) = read_record(experiment)["sweeps"]
    assert alone["runs"] == []
    trained.fails.clear()
    sweep(None, ["experiment=lengths", "train.seed=0"])
    (made,) = read_record(experiment)["sweeps"]
    assert len(made["runs"]) == 2
    sweep(None, ["experiment=lengths", "train.seed=0", "launch.nproc=1"])
    assert read_record(experiment)["sweeps"] == [made]


def test_a_command_that_is_killed_has_named_the_run_that_it_was_at(
    experiment, trained, reports, monkeypatch
):
    def train(run, config, nproc):
        (now,) = read_record(experiment)["sweeps"]
        seen.append((list(now["runs"]), now["ended"]))

    seen = []
    monkeypatch.setattr(sweeping, "launch", train)
    sweep(None, ["experiment=lengths", "train.seed=0", "loader=naive"])
    (job,) = read_record(experiment)["jobs"]
    assert seen == [([job["run"]], None)]
    (made,) = read_record(experiment)["sweeps"]
    assert made["runs"] == [], "nothing was saved there"


def test_a_stopped_command_keeps_what_it_trained(experiment, trained, reports):
    trained.stops.add(("bload", 0))
    with pytest.raises(SystemExit):
        sweep(None, ["experiment=lengths", "train.seed=0"])
    (made,) = read_record(experiment)["sweeps"]
    assert [run.split("-")[0] for run in made["runs"]] == ["naive"]
    assert made["ended"]


def test_a_record_of_one_command_becomes_the_first_of_several(experiment, trained, reports):
    experiment.mkdir(parents=True)
    jobs = [{"run": "old", "overrides": ["loader=mix"]}]
    old = {"command": "python train.py -m old", "machine": {"cpu": "mine"}, "threads": 3}
    old |= {"versions": {}, "git": None, "started": "2020-01-01T00:00:00+00:00", "ended": None}
    flat = {"name": "lengths", "jobs": jobs, **old}
    (experiment / "experiment.json").write_text(json.dumps(flat))
    sweep(None, ["experiment=lengths", "train.seed=0"])
    record = read_record(experiment)
    assert [job["run"].split("-")[0] for job in record["jobs"]] == ["old", "naive", "bload"]
    assert record["sweeps"][0] == {**old, "runs": None}
    assert len(record["sweeps"]) == 2


@pytest.mark.parametrize(
    "damage", ['{"name": "len', "[1]", '{"jobs": [3]}', '{"sweeps": "all"}', "[" * 100_000, "\x00"]
)
def test_a_damaged_record_is_kept_aside_and_the_sweep_goes_on(
    experiment, trained, reports, capsys, damage
):
    experiment.mkdir(parents=True)
    (experiment / "experiment.json").write_text(damage)
    sweep(None, ["experiment=lengths", "train.seed=0"])
    assert (experiment / "experiment.json.damaged").read_text() == damage
    assert len(read_record(experiment)["sweeps"][0]["runs"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {experiment / 'experiment.json'} cannot be read")
    assert "kept as experiment.json.damaged" in line


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (InputError("cannot write report.html; make room"), "cannot write report.html; make room"),
        (KeyError("t_max"), "KeyError: 't_max'"),
        (RecursionError("deep"), "RecursionError: deep"),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_failed_jobs_are_told_before_a_report_that_fails(
    experiment, trained, monkeypatch, capsys, error, says, fails
):
    def write_report(folder):
        raise error

    monkeypatch.setitem(
        sys.modules, "experiments.report", SimpleNamespace(write_report=write_report)
    )
    if fails:
        trained.fails.add(("naive", 0))
        with pytest.raises(SystemExit, match="1"):
            sweep(None, ["experiment=lengths", "train.seed=0"])
    else:
        sweep(None, ["experiment=lengths", "train.seed=0"])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (line,) = (line for line in err.splitlines() if line.startswith("no report: "))
    assert says in line
    assert f"python -m experiments.report {experiment}" in line
    if fails:
        assert err.index("  loader=naive train.seed=0: this one cannot be") < err.index(line)


def test_failed_jobs_stand_in_the_comparison(experiment, trained, reports, capsys):
    trained.fails.add(("naive", 0))
    with pytest.raises(SystemExit):
        sweep(None, ["experiment=lengths", "train.seed=0"])
    lines = capsys.readouterr().out.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if "Recall@20 with" in line) + 1 :]
    assert re.fullmatch(r"loader=naive train.seed=0 +failed", table[0])
    assert re.fullmatch(r"loader=bload train.seed=0 +7 +0 +1.5 s +25.00 %", table[1])


def train_py(*arguments: str, timeout: float) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow
@pytest.mark.dist
def test_a_sweep_on_two_ranks_goes_past_a_job_that_fails(command_line, tmp_path):
    options = command_line("loader=mix,naive,bload_exact", "loader.t_max=20", "train.epochs=1")
    done = train_py("-m", *options, "launch.nproc=2", "+loader.long=error", timeout=180)
    assert "there is no config key 'loader.long'" in done.stderr  # mix has none
    done = train_py("-m", *options, "launch.nproc=2", timeout=240)
    assert done.returncode == 1
    assert done.stdout.count("epoch   1/1") == 1
    says = "naive: sequence train00000.mp4 has 33 frames but t_max is 20; raise t_max to 45"
    assert f"  loader={says}" in done.stderr
    assert "Traceback" not in done.stderr
    states = {
        path.name.split("-")[0]: {file.name for file in path.iterdir()}
        for path in (tmp_path / "runs").iterdir()
        if path.is_dir()
    }
    assert "summary.json" in states["mix"]
    assert states["naive"] == states["bload_exact"] == {"error.json"}


@pytest.mark.slow
@pytest.mark.dist
def test_a_job_of_a_sweep_gives_the_figures_of_a_run_alone(command_line, tmp_path):
    job = command_line("train.epochs=1", "run.root=" + str(tmp_path / "alone"))
    assert train_py(*job, timeout=120).returncode == 0
    done = train_py("-m", *command_line("train.epochs=1", "train.seed=0"), timeout=120)
    assert done.returncode == 0, done.stderr
    (alone,), (swept,) = (
        [json.loads(path.read_text()) for path in (tmp_path / of).glob("*/summary.json")]
        for of in ("alone", "runs")
    )
    same = [key for key in alone if "recall" in key or key in ("run", "loss", "padding", "steps")]
    assert {key: alone[key] for key in same} == {key: swept[key] for key in same}


@pytest.mark.slow
@pytest.mark.dist
def test_ctrl_c_in_training_ends_the_whole_sweep(command_line):
    process = subprocess.Popen(
        [sys.executable, "train.py", "-m", *command_line("train.epochs=500", "train.seed=0,1")],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in process.stdout:
        if "epoch   2/" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "stopped in job 1 of 2; the same command goes on there"
