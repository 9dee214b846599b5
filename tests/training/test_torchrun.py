"""The real thing: torchrun starts the ranks, and they end together."""

import csv
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests.training.jobs import REPOSITORY, only_run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]

pytestmark = pytest.mark.dist


def torchrun(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*TORCHRUN, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )


def error_of(*arguments: str) -> str:
    """The sentence with which a job ends, and torchrun's report too, without our own traceback."""
    began = time.monotonic()
    done = torchrun("train.py", *arguments)
    assert time.monotonic() - began < 90
    assert done.returncode != 0
    # torchrun (which may live in .venv here) always adds a traceback of its own.
    assert not re.search(rf'File "{re.escape(str(REPOSITORY))}/(?!\.)', done.stderr)
    said = re.findall(r"^train.py: error: (.*)$", done.stderr, re.MULTILINE)
    reported = done.stderr.splitlines()[-2].removeprefix("  traceback : ")
    assert any(reported in line for line in said)  # two ranks may write on one line
    return said[0]


@pytest.fixture
def cut(data_root, tmp_path):
    """A copy of the data, and a function that cuts frames of its training videos short."""
    root = tmp_path / "broken"
    shutil.copytree(data_root, root)

    def cut(count):
        frames = sorted((root / "frames").glob("train*/*.png"))[:count]
        for frame in frames:
            frame.write_bytes(frame.read_bytes()[:-40])
        return f"dataset.root={root}", frames[0]

    return cut


@pytest.mark.slow
def test_a_corrupt_frame_in_a_worker_ends_all_ranks_with_the_sentence(command_line, cut):
    root, _ = cut(None)
    said = error_of(*command_line(root, "train.workers=1"))
    assert re.match(r"frame \S+/broken/frames/train\S+ \(\d+ bytes\) does not decode", said)


@pytest.mark.slow
def test_other_errors_end_all_ranks_with_the_sentence_too(command_line, cut, tmp_path):
    assert "train.epochs?" in error_of(*command_line("train.epoch=3"))
    nothing = str(tmp_path / "nothing")
    assert nothing in error_of("dataset=action_genome", f"dataset.root={nothing}")
    assert not (tmp_path / "runs").exists()
    root, frame = cut(1)  # the rank that does not read it hears why the other one failed
    assert f"frame {frame} (" in error_of(*command_line(root))


@pytest.mark.slow
def test_training_and_evaluation_run_under_torchrun(command_line, tmp_path):
    done = torchrun("train.py", *command_line("train.epochs=1", "train.workers=1"))
    assert done.returncode == 0, done.stderr
    assert "Recall@20, with constraint" in done.stdout
    assert done.stdout.count("epoch   1/1") == 1
    folder = only_run(tmp_path / "runs")
    assert (folder / "summary.json").exists()
    with (tmp_path / "runs" / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["run"], row["ranks"]) == (folder.name, "2")
    done = torchrun("eval.py", f"checkpoint={folder}", "device=cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("constraint ") == 1
