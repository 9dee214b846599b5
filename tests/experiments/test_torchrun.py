"""The real thing: torchrun starts the ranks, and they end together."""

import csv
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from bload import PACKERS
from tests.experiments.jobs import REPOSITORY, only_run

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


def traceback_of_the_job(text: str) -> bool:
    """A traceback in our own code; torchrun (which may live in .venv here) always adds its own."""
    return re.search(rf'File "{re.escape(str(REPOSITORY))}/(?!\.)', text) is not None


def test_a_misspelt_key_ends_all_ranks_with_the_sentence(command_line, tmp_path):
    done = torchrun("train.py", *command_line("train.epoch=3"))
    assert done.returncode != 0
    sentence = "train.py: error: there is no config key 'train.epoch'; did you mean train.epochs?"
    assert sentence in done.stderr
    assert not traceback_of_the_job(done.stderr)
    assert not (tmp_path / "runs").exists()


def test_a_corrupt_frame_in_a_worker_ends_all_ranks_with_the_sentence(
    command_line, data_root, tmp_path
):
    root = tmp_path / "broken"
    shutil.copytree(data_root, root)
    for frame in (root / "frames").glob("train*/*.png"):
        frame.write_bytes(frame.read_bytes()[:-40])
    began = time.monotonic()
    done = torchrun("train.py", *command_line(f"dataset.root={root}", "train.workers=1"))
    assert time.monotonic() - began < 60
    assert done.returncode != 0
    assert re.search(
        rf"^train.py: error: frame {re.escape(str(root))}\S+ \(\d+ bytes\) does not decode "
        r".*; extract or copy it again$",
        done.stderr,
        re.MULTILINE,
    )
    assert not traceback_of_the_job(done.stderr)


@pytest.mark.slow
def test_one_rank_that_fails_tells_the_other(command_line, data_root, tmp_path):
    """A frame of one video is corrupt: only the rank that reads it knows why."""
    root = tmp_path / "broken"
    shutil.copytree(data_root, root)
    frame = next(iter(sorted((root / "frames").glob("train*/*.png"))))
    frame.write_bytes(frame.read_bytes()[:-40])
    done = torchrun("train.py", *command_line(f"dataset.root={root}"))
    assert done.returncode != 0
    assert f"train.py: error: frame {frame} (" in done.stderr
    assert not traceback_of_the_job(done.stderr)


@pytest.mark.slow
def test_missing_data_end_all_ranks_with_the_sentence(tmp_path):
    done = torchrun("train.py", "dataset=action_genome", f"dataset.root={tmp_path / 'nothing'}")
    assert done.returncode != 0
    assert f"{tmp_path / 'nothing'} holds no Action Genome" in done.stderr
    assert not traceback_of_the_job(done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("loader", sorted(PACKERS))
def test_training_and_evaluation_run_under_torchrun(command_line, tmp_path, loader):
    options = command_line(f"loader={loader}", "train.epochs=1", "train.workers=1")
    done = torchrun("train.py", *options)
    assert done.returncode == 0, done.stderr
    assert "Recall@20 with" in done.stdout
    assert done.stdout.count("epoch   1/1") == 1
    folder = only_run(tmp_path / "runs")
    assert (folder / "summary.json").exists()
    with (tmp_path / "runs" / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["run"], row["ranks"]) == (folder.name, "2")
    if loader == "bload":
        done = torchrun("eval.py", f"checkpoint={folder}", "device=cpu")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("constraint ") == 1
