"""One process at a time writes a folder."""

import subprocess
import sys
import threading

import pytest

from bload.errors import InputError
from datasets.frames.one_writer import one_writer
from tests.training.jobs import REPOSITORY

HOLD = """
import sys, time
from pathlib import Path
from datasets.frames.one_writer import one_writer
with one_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(900)
"""


def test_whoever_waits_goes_on_when_the_holder_is_killed(tmp_path):
    folder = tmp_path / "frames"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            refused = pytest.raises(InputError, match="another process is writing")
            with refused, one_writer(folder, seconds=0.1):
                pass
            threading.Timer(1.0, holder.kill).start()
            with one_writer(folder):
                assert holder.wait() < 0
        finally:
            holder.kill()
