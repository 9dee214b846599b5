"""One run in a folder at a time."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from bload.errors import InputError
from experiments import lock as locking
from experiments.lock import lock
from tests.experiments.jobs import one_rank

HOLD = """
import sys, time
from pathlib import Path
from experiments.lock import lock
from experiments.ranks import Ranks
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
    (tmp_path / "run" / "last.pt.123.part").write_text("half")
    os.kill(holder.pid, signal.SIGKILL)
    began = time.monotonic()
    with lock(tmp_path / "run", one_rank()):
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]
    assert time.monotonic() - began < locking.WAIT
    with lock(tmp_path / "run", one_rank()):
        pass
