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
from pathlib import Path

import pytest
import wandb
import yaml
from training.cli import check_overrides
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from bload.errors import InputError
from experiments.soak import MARK, SMALL, ended_or_left, marked
from tests.training.jobs import REPOSITORY
from tests.training.offline_file import OfflineRun
from training.checkpoint import Start
from training.config import WandbConfig, register
from training.folder import RunFolder
from training.tracking import Tracker

DISABLED, OFFLINE = WandbConfig("disabled"), WandbConfig("offline")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where wandb writes
    folder = RunFolder(str(tmp_path), "run")
    folder.open(0)
    return folder


def read(folder):
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


def test_lines_say_their_kind_and_place_and_are_on_disk_at_once(folder):
    for step in (7, 8):  # opened again, the file goes on
        tracker = Tracker(folder, {}, DISABLED, Start(), active=True)
        tracker.log("step", 2, step, loss=0.5)
        assert read(folder)[-1] == {"kind": "step", "epoch": 2, "step": step, "loss": 0.5}
        tracker.close()
    assert len(read(folder)) == 2


def test_other_ranks_write_nothing(folder):
    tracker = Tracker(folder, {}, OFFLINE, Start(), active=False)
    tracker.log("step", 0, 1, loss=0.5)
    tracker.close()
    assert not folder.metrics.exists()
    assert tracker.wandb is None


@pytest.mark.slow
def test_wandb_is_not_imported_unless_used():
    code = "import sys, train, training.tracking; sys.exit('wandb' in sys.modules)"
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
    wandb.teardown()  # it reads the environment once
    with Tracker(folder, {"train": {"lr": 0.1}}, OFFLINE, Start(), active=True) as tracker:
        tracker.log("step", 0, 1, loss=0.5)
    wandb.teardown()
    assert not calls
    (place,) = Path("wandb").glob("offline-run-*")
    assert OfflineRun(place).column("step/loss") == [0.5]
    assert len(read(folder)) == 1


def test_wandb_without_its_server_goes_on_offline(folder, monkeypatch, capsys):
    monkeypatch.setattr("training.wandb_run.INIT_TIMEOUT", 1.0)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    wandb.teardown()  # it reads the environment once
    tracker = Tracker(folder, {}, WandbConfig("online"), Start(), active=True)
    tracker.log("step", 0, 1, loss=0.5)
    assert tracker.wandb.offline
    tracker.close()
    wandb.teardown()
    printed = capsys.readouterr().out
    assert "; going on offline, `wandb sync " in printed
    assert printed.count("going on") == 1
    assert list(Path("wandb").glob("offline-run-*/*.wandb"))


ONLINE = """
import sys, time, wandb
from training.checkpoint import Start
from training.config import WandbConfig
from training.folder import RunFolder
from training.tracking import Tracker
folder = RunFolder("runs", "run")
folder.open(0)
began = time.monotonic()
tracker = Tracker(folder, {}, WandbConfig("online"), Start(), active=True)
print("offline after" if tracker.wandb.offline else "online", round(time.monotonic() - began), "s")
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
            [sys.executable, "-c", ONLINE],
            cwd=tmp_path,
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
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    if not key:
        lines = [line for line in printed.splitlines() if line.startswith("wandb: ")]
        assert "No API key configured. Use `wandb login` to log in; going on offline" in lines[0]
        assert len(lines) == 2  # the other is the command at the end


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [False, True])
def test_a_run_that_is_stopped_leaves_no_process_of_wandb(stuck, tmp_path):
    mark = f"{os.getpid()}-{stuck}"
    places = [f"dataset.root={tmp_path}/data", f"run.root={tmp_path}", "run.name=run"]
    process = subprocess.Popen(
        [sys.executable, "train.py", *places, *SMALL, "train.epochs=500", "wandb.mode=offline"],
        cwd=REPOSITORY,
        env={**os.environ, MARK: mark, "WANDB_DIR": str(tmp_path)},
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
    tracker = Tracker(folder, {}, DISABLED, Start(), active=True)
    monkeypatch.setattr(tracker, "file", FullFile(folder.metrics))
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be written: no space .* are free"):
        tracker.log("step", 0, 1, loss=0.5)


class FullFile:
    """A file on a full disk."""

    def __init__(self, path):
        self.name = str(path)

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


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
