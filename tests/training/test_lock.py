"""One run in a folder at a time."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from unittest import mock

import pytest
from training.lock import lock

import train
from bload.errors import InputError
from tests.training.jobs import REPOSITORY, contents, metrics, one_rank, only_run
from training import lock as locking
from training.folder import RunFolder

HOLD = """
import sys, time
from pathlib import Path
from training.lock import lock
from training.ranks import Ranks
with lock(Path(sys.argv[1]), Ranks(0, 1, None)):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of ``tmp_path / "run"``."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_run_is_refused_and_names_the_first(holder, tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "WAIT", 0.3)
    says = f"process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(InputError, match=says), lock(tmp_path / "run", one_rank()):
        pass


def test_the_lock_ends_with_its_process_and_part_files_are_cleared(holder, tmp_path):
    for name in ("last.pt.123.part", "draft.part"):
        (tmp_path / "run" / name).write_text("half")
    os.kill(holder.pid, signal.SIGKILL)
    began = time.monotonic()
    with lock(tmp_path / "run", one_rank()):
        assert {path.name for path in (tmp_path / "run").iterdir()} == {"lock", "draft.part"}
    assert time.monotonic() - began < locking.WAIT
    with lock(tmp_path / "run", one_rank()):
        pass


def test_a_start_that_comes_in_between_two_locks_wins(tmp_path, monkeypatch):
    """One lock is given up before the other is held; who loses it then must not wait for it."""
    how = []

    def flock(_, wanted):
        how.append(wanted)
        if how.count(wanted) == 1 and wanted & fcntl.LOCK_SH:
            raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(InputError, match="is in use by"), lock(tmp_path / "run", one_rank()):
        pass
    assert len(how) == 2


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    error = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=error))
    says = r"run cannot be locked \(No locks available\): its file system has no flock; give"
    with pytest.raises(InputError, match=says), lock(tmp_path / "run", one_rank()):
        pass


def begin(ranks, config):
    """Begin a run, the first checkpoint included; the second rank looks a second late."""
    saved_at = RunFolder.saved_at

    def late(folder):
        time.sleep(ranks.rank)
        return saved_at(folder)

    with (
        mock.patch.object(RunFolder, "saved_at", late),
        mock.patch.object(train, "train_epochs"),
        mock.patch.object(train, "report"),
    ):
        train.train(config, ranks)


@pytest.mark.dist
def test_a_slow_rank_does_not_take_the_first_one_for_another_run(config, tmp_path, two_ranks):
    two_ranks.run(begin, config())
    assert (only_run(tmp_path / "runs") / "last.pt").exists()


@pytest.mark.slow
@pytest.mark.dist
def test_the_same_command_beside_a_run_is_refused_and_changes_nothing(command_line, tmp_path):
    def start():
        return subprocess.Popen(
            [sys.executable, "train.py", *command_line("train.epochs=8", "train.log_every=1")],
            cwd=REPOSITORY,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = start()
    assert any("epoch   1/" in line for line in first.stdout)
    first.send_signal(signal.SIGSTOP)  # so that it is there until the second has ended
    try:
        folder = only_run(tmp_path / "runs")
        before = contents(folder)
        second = start()
        out, err = second.communicate(timeout=120)
        assert (second.returncode, out) == (2, "")
        (said,) = err.splitlines()
        assert f"is in use by process {first.pid} on {socket.gethostname()}; wait for" in said
        assert contents(folder) == before
    finally:
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    lines = metrics(folder)
    steps = [(line["epoch"], line["step"]) for line in lines if line["kind"] == "step"]
    epochs = [line["epoch"] for line in lines if line["kind"] == "epoch"]
    assert epochs == [*range(8)]
    assert steps == sorted(set(steps))
    assert [line["kind"] for line in lines[-2:]] == ["eval", "summary"]
