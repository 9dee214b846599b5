"""`launch` starts the ranks, and they end together: in peace, by an error, a signal or Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from training.failures import describe
from training.launch import ERROR_FILE, errors_in_one_line, launch

from bload.errors import InputError
from tests.training.jobs import REPOSITORY, only_run

pytestmark = pytest.mark.dist
slow = partial(pytest.param, marks=pytest.mark.slow)


def all_end(pids: list[int], within: float) -> bool:
    """True if none of the processes runs any more after so many seconds."""
    deadline = time.monotonic() + within
    while pids and time.monotonic() < deadline:
        listed = subprocess.run(
            ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))], capture_output=True
        )
        states = dict(line.split() for line in listed.stdout.splitlines())
        pids = [int(pid) for pid, state in states.items() if not state.startswith(b"Z")]
        time.sleep(0.1)
    return not pids


@pytest.fixture
def ranks(monkeypatch, tmp_path):
    """Starts two ranks that end as they are asked to, and gives what they note: pid, facts."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    monkeypatch.setattr(sys, "argv", [str(Path(__file__).with_name("ranks_that_fail.py"))])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("training.launch.cores", lambda: 7)

    def notes(how: str | None = None) -> list[str]:
        if how:
            launch(2, [how, str(tmp_path)])
        return [path.read_text() for path in sorted(tmp_path.glob("[01]"))]

    yield notes
    for number, handler in handlers.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
    assert all_end([int(note.split()[0]) for note in notes()], within=15)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("subclass of InputError", r"^sequence 1 has 50 frames but t_max is 20; raise t_max"),
        slow("signal", r"^rank 1 was ended by SIGKILL; .* train.batch_frames"),
        slow("stop", r"^rank 0 at start has waited for rank 1 for 10 s"),
        slow("status", r"^rank 1 ended with status 7$"),
        slow("bug", r"^rank 1 failed with KeyError: 'nobody foresaw this'$"),
    ],
)
def test_the_error_of_a_rank_ends_all_with_one_sentence(capfd, ranks, how, says):
    began = time.monotonic()
    with pytest.raises(InputError, match=says):
        ranks(how)
    assert time.monotonic() - began < 150, "they waited for the others, who sleep"
    # They were joined, and shared the cores.
    assert [note.split()[1:] for note in ranks()] == [["2", "3", "3"]] * 2
    assert "OMP_NUM_THREADS" not in os.environ
    printed = capfd.readouterr().err
    assert ("Traceback" in printed) == (how == "bug")
    assert "torch.distributed.elastic" not in printed


@pytest.mark.parametrize(
    ("number", "started"),
    [(signal.SIGINT, True), slow(signal.SIGTERM, True), slow(signal.SIGINT, False)],
    ids=["at work", "asked to end", "while they import"],
)
def test_a_signal_leaves_no_rank_running(ranks, number, started):
    def send():
        time.sleep(2)
        while started and len(ranks()) < 2:
            time.sleep(0.01)
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    sent = []
    threading.Thread(target=send).start()
    with pytest.raises(KeyboardInterrupt):
        ranks("not")
    assert time.monotonic() - sent[0] < 60


def test_a_rank_leaves_its_sentence_to_the_process_that_started_it(monkeypatch, tmp_path, capsys):
    path = tmp_path / "error.txt"
    monkeypatch.setenv(ERROR_FILE, str(path))
    monkeypatch.setenv("RANK", "3")
    for error, status, says in (
        (InputError("this was wrong"), 2, "this was wrong"),
        (KeyboardInterrupt(), 130, ""),
        (KeyError("nobody foresaw this"), 1, "rank 3 failed with KeyError: 'nobody"),
    ):
        with pytest.raises(SystemExit) as end, errors_in_one_line():
            raise error
        assert end.value.code == status
        assert path.read_text().startswith(says)
        with pytest.raises(SystemExit), errors_in_one_line():
            raise InputError("the others fail because of that")
        assert path.read_text().startswith(says), "the first to fail knows why"
        path.unlink()
    assert not capsys.readouterr().err


def test_what_the_machine_refuses_is_one_sentence():
    worker = RuntimeError("Caught it in DataLoader worker 0.\nTraceback ...\nMemoryError: no GiB")
    for error, says in (
        (OSError(28, "No space left on device", "x.pt"), "No space.*'x.pt'; check"),
        (PermissionError(13, "Permission denied", "runs"), "Permission denied.*permissions"),
        (MemoryError(), "memory ran out .MemoryError.; lower"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "memory ran out .CUDA.*lower"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "memory ran out"),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."), "train.workers"),
        (RuntimeError("gloo: Connection closed by peer [::1]:7"), "another process.*goes on"),
        (worker, "^rank 3 failed with RuntimeError: Caught"),
        (KeyError("nobody"), "^rank 3 failed with KeyError"),
    ):
        said = describe(error, 3)
        assert re.search(says, said), said
        assert "\n" not in said


def test_under_torchrun_no_ranks_are_started(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(InputError, match=r"launch.nproc is 2 under torchrun"):
        launch(2, [])


def train_py(*arguments: str, script: Path | str = "train.py") -> subprocess.Popen:
    """Start train.py, or a script that calls it, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, script, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_two_ranks_train_without_torchrun(command_line, tmp_path):
    process = train_py(*command_line("launch.nproc=2", "train.epochs=1", "train.workers=1"))
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    assert out.count("epoch   1/1") == 1
    assert out.count(", 2 ranks") == 1
    config = json.loads((only_run(tmp_path / "runs") / "config.json").read_text())
    assert config["launch"]["nproc"] == 2


@pytest.mark.slow
def test_a_wrong_value_is_one_sentence_once(command_line):
    process = train_py(*command_line("launch.nproc=2", "loader.t_max=10"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "has 33 frames but t_max is 10; raise loader.t_max to 45" in err


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    children = [child for child, parent in pairs if parent == pid]
    return [one for child in children for one in (child, *descendants(child))]


@pytest.fixture
def temporary(monkeypatch):
    """The folder for temporary files of processes started here; a path fit for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number", "status"),
    [
        (os.killpg, signal.SIGINT, 130),  # as a terminal does
        (os.kill, signal.SIGINT, 130),
        (os.kill, signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["from the terminal", "by kill", "by kill -9"],
)
def test_ctrl_c_on_training_says_how_to_go_on_and_leaves_nothing(
    command_line, temporary, send, number, status
):
    process = train_py(*command_line("launch.nproc=2", "train.epochs=500", "train.workers=1"))
    for line in process.stdout:
        if "epoch   2/" in line:
            break
    started = descendants(process.pid)
    assert len(started) >= 5  # the launcher and two ranks with a reader each
    send(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert ("stopped by SIGINT; " in err) == (status == 130)
    assert err.count("stopping after this step; ") == 1
    assert len(err.splitlines()) <= 3
    assert all_end(started, within=15)  # readers look for their rank every five seconds
    assert not [*temporary.glob("bload_*")]


@pytest.mark.slow
def test_training_whose_output_is_not_read_on_is_saved(command_line, tmp_path):
    process = train_py(*command_line("launch.nproc=2", "train.epochs=500"))
    for line in process.stdout:
        if "epoch   2/" in line:
            break
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(60) == 128 + signal.SIGPIPE
    saved = only_run(tmp_path / "runs") / "last.pt"
    (line,) = filter(None, said.splitlines())
    assert line.startswith("stopped by SIGPIPE, as nobody reads its output any more; the same ")
    assert f"goes on from {saved}: epoch " in line
    assert not saved.with_name("error.json").exists()
