"""A file is written whole or not at all, a folder by one process at a time."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from bload.errors import InputError
from datasets.files import lock_folder, write_whole
from tests.installation import ROOT

HOLD = """
import sys, time
from pathlib import Path
from datasets.files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(900)
"""


def fail_as_torch_does(_):
    try:
        raise OSError(errno.ENOSPC, "no space")
    finally:
        raise RuntimeError("unexpected pos")


CONTENTS = [b"newer", "newer", lambda file: file.write(b"newer"), fail_as_torch_does]


@pytest.mark.parametrize("content", CONTENTS)
def test_after_a_failure_the_old_file_is_there(content, tmp_path, monkeypatch):
    path, previous = tmp_path / "last.pt", tmp_path / "previous.pt"
    path.write_text("old")
    previous.write_text("older")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
    with pytest.raises(InputError, match="no space"):
        write_whole(path, content, previous)
    found = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert found == {"last.pt": "old", "previous.pt": "older"}


def test_a_file_system_that_cannot_sync_folders_will_do(tmp_path, monkeypatch):
    def sync(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "no sync")

    monkeypatch.setattr(os, "fsync", sync)
    write_whole(tmp_path / "last.pt", "text")
    assert (tmp_path / "last.pt").read_text() == "text"


def test_a_lock_where_no_file_can_be_made_or_locked_is_refused_at_once(tmp_path, monkeypatch):
    refused = pytest.raises(InputError, match="/proc/nowhere cannot be written")
    with refused, lock_folder(Path("/proc/nowhere")):
        pass
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, "no flock")))
    with pytest.raises(InputError, match="no flock"), lock_folder(tmp_path, seconds=1):
        pass


def test_whoever_waits_says_so_and_goes_on_when_the_holder_is_killed(tmp_path, capsys):
    folder = tmp_path / "frames"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(InputError, match="another process"), lock_folder(folder, seconds=0):
                pass
            threading.Timer(1.5, holder.kill).start()
            with lock_folder(folder):
                assert holder.wait() < 0
                assert "waiting for another" in capsys.readouterr().out
        finally:
            holder.kill()
