"""Figures go to metrics.jsonl from the first rank alone, and to wandb without network or prompt."""

import errno
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time

import pytest
import wandb
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from bload.errors import InputError
from experiments.cli import check_overrides
from experiments.config import WandbConfig, register
from experiments.run_folder import RunFolder
from experiments.soak import MARK, SMALL, ended_or_left, marked
from experiments.tracking import Tracker
from tests.experiments.jobs import REPOSITORY

DISABLED, OFFLINE = WandbConfig("disabled"), WandbConfig("offline", group="mine")


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(str(tmp_path), "run")
    folder.open(0)
    return folder


def read(folder):
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


def test_lines_say_their_kind_and_place_and_are_on_disk_at_once(folder):
    for step in (7, 8):  # opened again, the file goes on
        tracker = Tracker(folder, {}, DISABLED, active=True)
        tracker.log("step", 2, step, loss=0.5)
        assert read(folder)[-1] == {"kind": "step", "epoch": 2, "step": step, "loss": 0.5}
        tracker.close()
    assert len(read(folder)) == 2


def test_other_ranks_write_nothing(folder):
    tracker = Tracker(folder, {}, OFFLINE, active=False)
    tracker.log("step", 0, 1, loss=0.5)
    tracker.close()
    assert not folder.metrics.exists()
    assert tracker.wandb is None


@pytest.mark.slow
def test_wandb_is_not_imported_unless_used():
    code = "import sys, train, experiments.tracking; sys.exit('wandb' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True, timeout=60)


def test_wandb_offline_writes_a_run_without_network_or_prompt(folder, monkeypatch):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    connect = socket.socket.connect
    calls = []

    def only_here(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] != "127.0.0.1":
            calls.append(address)
            raise OSError("no network in tests")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("wandb asked something"))
    for step in (1, 2):  # the second goes on with the run of the first
        tracker = Tracker(folder, {"train": {"lr": 0.1}}, OFFLINE, active=True)
        tracker.log("step", 0, step, loss=0.5)
        if step == 2:
            tracker.log("summary", 1, 0, **{"run": "here", "with/recall@20": 0.25})
        tracker.close()
    runs = list(folder.path.glob("wandb/offline-run-*/*.wandb"))
    assert runs
    assert all(run.stat().st_size > 0 for run in runs)
    assert not calls
    records = b"".join(run.read_bytes() for run in runs)
    assert f"{folder.path.parent.name}-run".encode() in records
    assert b"mine" in records
    (table,) = folder.path.glob("wandb/offline-run-*/files/media/table/*.table.json")
    assert json.loads(table.read_text())["data"] == [["run", "here"], ["with/recall@20", "0.25"]]
    assert len(read(folder)) == 3


def test_wandb_without_its_server_goes_on_offline(folder, monkeypatch, capsys):
    monkeypatch.setattr("experiments.tracking.INIT_TIMEOUT", 1.0)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    wandb.teardown()  # it reads the environment once
    tracker = Tracker(folder, {}, WandbConfig("online"), active=True)
    tracker.log("step", 0, 1, loss=0.5)
    assert tracker.wandb.settings.mode == "offline"
    tracker.close()
    wandb.teardown()
    printed = capsys.readouterr().out
    assert "; going on offline, `wandb sync " in printed
    assert printed.count("going on") == 1
    assert list((folder.path / "wandb" / "latest-run").glob("*.wandb"))


ONLINE = """
import sys, time, wandb
from experiments.config import WandbConfig
from experiments.run_folder import RunFolder
from experiments.tracking import Tracker
folder = RunFolder(sys.argv[1], "run")
folder.open(0)
began = time.monotonic()
tracker = Tracker(folder, {}, WandbConfig("online"), active=True)
print(tracker.wandb.settings.mode, "after", round(time.monotonic() - began), "s")
tracker.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", [{}, {"WANDB_API_KEY": "a" * 40}], ids=["no key", "silent server"])
def test_on_a_terminal_wandb_asks_nothing_and_waits_ten_seconds_at_most(key, tmp_path):
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if "WANDB" not in name}
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        environment |= {"WANDB_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}", **key}
        process = subprocess.Popen(
            [sys.executable, "-c", ONLINE, str(tmp_path)],
            env=environment | {"HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        )
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
    printed = os.read(ours, 10**5).decode()
    assert "; going on offline, `wandb sync " in printed
    said = printed[printed.index("offline after ") :].split()
    assert int(said[2]) <= 10
    assert list(tmp_path.glob("run/wandb/offline-run-*/*.wandb"))


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [False, True])
def test_a_run_that_is_stopped_leaves_no_process_of_wandb(stuck, tmp_path):
    mark = f"{os.getpid()}-{stuck}"
    places = [f"dataset.root={tmp_path}/data", f"run.root={tmp_path}", "run.name=run"]
    process = subprocess.Popen(
        [sys.executable, "train.py", *places, *SMALL, "train.epochs=500", "wandb.mode=offline"],
        cwd=REPOSITORY,
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_text()):
        time.sleep(0.2)
    if stuck:
        service = min(pid for pid, role in marked(mark).items() if role == "helper")
        os.kill(service, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    assert not ended_or_left(process, mark, time.monotonic() + 10)
    assert process.returncode == 128 + signal.SIGTERM
    assert ("wandb: still busy after 5 s" in process.stdout.read()) == stuck


def test_a_full_disk_under_the_figures_is_named(folder, monkeypatch):
    tracker = Tracker(folder, {}, DISABLED, active=True)
    monkeypatch.setattr(tracker, "file", FullFile(folder.metrics))
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be written: no space .* are free"):
        tracker.log("step", 0, 1, loss=0.5)


class FullFile:
    """A file on a full disk."""

    def __init__(self, path):
        self.name = str(path)

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_run_of_a_wandb_sweep_has_the_id_that_its_agent_gave(folder, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "of-the-agent")
    for own in (f"{folder.path.parent.name}-run", "of-the-agent"):
        wandb.teardown()  # it reads the environment once
        tracker = Tracker(folder, {}, OFFLINE, active=True)
        assert tracker.wandb.id == own
        tracker.close()
        monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
    wandb.teardown()


def test_the_example_of_a_wandb_sweep_starts_training_with_configs_that_exist():
    register()
    sweep = yaml.safe_load((REPOSITORY / "examples" / "wandb_sweep.yaml").read_text())
    values = {key: each["values"] for key, each in sweep["parameters"].items()}
    at = sweep["command"].index("${program}") + 1
    for loader in values["loader"]:
        chosen = {"loader": {"value": loader}, "train.seed": {"value": values["train.seed"][0]}}
        args = create_sweep_command_args({"args": chosen})
        check_overrides("train", [*sweep["command"][at:-1], *args["args_no_hyphens"]])
    assert sweep["command"][-1] == "${args_no_hyphens}"
    assert sweep["command"][1] == "torchrun"
    assert set(values) == {"loader", "train.seed"}
