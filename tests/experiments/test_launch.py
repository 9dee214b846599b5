"""`launch` starts the ranks, and they end together: in peace, by an error, a signal or Ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from bload.errors import InputError
from experiments.config import check_values
from experiments.launch import launch, start
from tests.experiments.jobs import REPOSITORY, only_run
from tests.experiments.rank_functions import fail, note_who

pytestmark = pytest.mark.dist
slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.fixture
def ranks() -> Callable[[], set]:
    """The processes of this test that run; those of the session's ranks were there before."""
    before = set(multiprocessing.active_children())
    return lambda: set(multiprocessing.active_children()) - before


def test_ranks_are_joined_and_share_the_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    launch(note_who, {"folder": str(tmp_path)}, 2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "0": "2 3 3",
        "1": "2 3 3",
    }
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("subclass of InputError", r"^sequence 1 has 50 frames but t_max is 20; raise t_max"),
        slow("signal", r"^rank 1 was ended by SIGKILL; if memory ran out, lower train"),
        slow("status", r"^rank 1 ended with status 7$"),
        ("bug", r"^rank 1 failed with KeyError: 'nobody foresaw this'$"),
    ],
)
def test_the_error_of_a_rank_ends_all_with_one_sentence(capfd, ranks, how, says):
    began = time.monotonic()
    with pytest.raises(InputError, match=says):
        launch(fail, {"rank": 1, "how": how}, 2)
    assert time.monotonic() - began < 40
    assert not ranks()
    printed = capfd.readouterr().err
    assert ("Traceback" in printed) == (how == "bug")


@pytest.mark.parametrize(
    ("number", "started", "pause"),
    [(signal.SIGINT, 2, 3), (signal.SIGTERM, 2, 0), (signal.SIGINT, 1, 0)],
    ids=["at work", "while they import", "before the second is started"],
)
def test_a_signal_leaves_no_rank_running(ranks, number, started, pause):
    def send():
        while len(ranks()) < started:
            time.sleep(0.001)
        time.sleep(pause)
        os.kill(os.getpid(), number)

    threading.Thread(target=send).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launch(fail, {"rank": None, "how": "not"}, 2)
    assert time.monotonic() - began < 40
    assert not ranks()


def test_under_torchrun_no_ranks_are_started(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(InputError, match=r"launch.nproc is 2 under torchrun.*leave launch.nproc"):
        start(pytest.fail, {"launch": {"nproc": 2}})


def test_less_than_one_rank_is_refused(config):
    with pytest.raises(InputError, match=r"launch.nproc is 0; give at least 1"):
        check_values(config("launch.nproc=0"))


def train_py(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "train.py", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(session: int) -> int:
    """How many processes run in a session."""
    listed = subprocess.run(["ps", "-o", "pid=", "--sid", str(session)], capture_output=True)
    return len(listed.stdout.split())


@pytest.mark.slow
def test_two_ranks_train_without_torchrun(command_line, tmp_path):
    process = train_py(*command_line("launch.nproc=2", "train.epochs=1", "train.workers=1"))
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    assert out.count("epoch   1/1") == 1
    assert out.count(", 2 ranks") == 1
    assert "-r2-" in only_run(tmp_path / "runs").name


@pytest.mark.slow
def test_a_wrong_value_is_one_sentence_once(command_line):
    process = train_py(*command_line("launch.nproc=2", "loader.t_max=10"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "has 33 frames but t_max is 10; raise t_max to 45" in err


@pytest.mark.slow
@pytest.mark.parametrize("everyone", [True, False], ids=["from the terminal", "by kill"])
def test_ctrl_c_on_training_says_how_to_go_on_and_leaves_nothing(command_line, everyone):
    """A terminal sends the signal to all processes of the job, `kill` to the first."""
    process = train_py(*command_line("launch.nproc=2", "train.epochs=500", "train.workers=1"))
    for line in process.stdout:
        if "epoch   2/" in line:
            break
    assert processes_of(process.pid) >= 5  # two ranks with a reader each
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in err.splitlines() if line] == [
        "stopped; the same command goes on from the last checkpoint, if one was written"
    ]
    deadline = time.monotonic() + 15  # readers look for their rank every five seconds
    while processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(process.pid) == 0
