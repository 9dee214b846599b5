"""Data workers are forked from their rank, however ranks are started, and import nothing again."""

import os
import subprocess
import sys

import pytest

from tests.training.jobs import REPOSITORY
from tests.training.test_torchrun import TORCHRUN

pytestmark = [pytest.mark.slow, pytest.mark.dist]
SCRIPT = """\
import os
from pathlib import Path


def note(what):
    name = f"{what}-{os.getpid()}"
    Path(os.environ["NOTES"], name).write_text(f"{os.getppid()} {os.environ.get('RANK', 'none')}")


note("imported")

import train
from datasets.action_genome import VideoSource

read = VideoSource.read


def noted_read(self, *arguments):
    note("read")
    return read(self, *arguments)


VideoSource.read = noted_read

if __name__ == "__main__":
    train.command_line()
"""


@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        (TORCHRUN, []),
        ([sys.executable], ["launch.nproc=2"]),
        ([sys.executable], ["-m", "launch.nproc=2"]),
    ],
    ids=["torchrun", "launch", "sweep"],
)
def test_workers_are_forked_from_their_rank(command_line, tmp_path, start, arguments):
    (tmp_path / "mine.py").write_text(SCRIPT)
    notes = tmp_path / "notes"
    notes.mkdir()
    line = command_line("train.epochs=1", "train.workers=2")
    done = subprocess.run(
        [*start, str(tmp_path / "mine.py"), *arguments, *line],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "NOTES": str(notes)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    noted = {"imported": {}, "read": {}}
    for path in notes.iterdir():
        what, _, process = path.name.partition("-")
        parent, rank = path.read_text().split()
        noted[what][int(process)] = int(parent), rank
    scripts = noted["imported"]
    ranks = {process: rank for process, (_, rank) in scripts.items() if rank != "none"}
    assert sorted(ranks.values()) == ["0", "1"]
    assert not any(parent in scripts for parent, _ in scripts.values())
    workers = {process: of for process, of in noted["read"].items() if process not in ranks}
    assert {parent for parent, _ in workers.values()} == {*ranks}
