"""Several jobs of one command: one that is refused costs nothing but itself."""

import subprocess
import sys

import pytest

from tests.installation import torchrun
from tests.training.jobs import PAGELESS, REPOSITORY

LAUNCHERS = {"python": [sys.executable], "torchrun": [sys.executable, *torchrun(2)]}
SHORT = ("train.epochs=1", "loader.t_max=53,9", "loader=naive,bload")
"""Four jobs. Blocks of 9 slots hold no video, so two of them are refused."""


def run(launcher, *arguments, script=PAGELESS):
    command = [*LAUNCHERS[launcher], script, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_refused_job_is_a_sentence_and_a_row_and_finished_ones_are_skipped(
    command_line, tmp_path, launcher
):
    for steps in (True, False):
        done = run(launcher, "-m", *command_line(*SHORT))
        assert done.returncode == (2 if launcher == "python" else 1)
        assert "exitcode  : 2" in done.stderr or launcher == "python"
        assert done.stderr.count("error: sequence") == 2
        assert "t_max is 9" in done.stderr
        assert "loader.t_max=9 loader=naive" in done.stderr
        closing = done.stdout[done.stdout.rindex("\n| loader.t_max=53 loader=naive") :]
        assert closing.count("\n| loader.t_max=53") == 2
        assert closing.count("failed: loader.t_max=9") + closing.count(" loader.t_max=9") == 2
        assert ("epoch   1/1" in done.stdout) == steps
        assert done.stdout.count("had finished before") == 2 * (not steps)
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir()]) == 2


def test_a_reference_to_no_key_is_refused_in_a_sentence():
    done = run("python", "train.lr=${nope}", script="train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Interpolation key 'nope' not found")
    done = run("python", "-m", "experiment=ablations,one_rank", script="train.py")
    assert (done.returncode, done.stderr.count("is a sweep itself")) == (2, 2)


FAULTY = """
import os, train
from bload import InputError
from training import jobs, run
from training.report import page

step = run.train_step

def fail(*arguments):
    if os.environ.get("RANK") == "0":
        return step(*arguments)  # waits for rank 1
    raise ERROR("of one rank")

run.train_step = fail
page.write_or_warn = lambda *_: None
if __name__ == "__main__":
    jobs.run(train.main)
"""


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize(
    ("launcher", "error"),
    [("python", "ZeroDivisionError"), ("python", "InputError"), ("torchrun", "InputError")],
)
def test_an_error_of_one_rank_ends_all_ranks_and_one_process_goes_on(
    command_line, tmp_path, launcher, error
):
    script, faulty = tmp_path / "faulty.py", FAULTY.replace("ERROR", error)
    script.write_text(f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{faulty}")
    lines = ("-m", *command_line("loader=naive,bload"))
    done = run(launcher, *lines, script=str(script))
    assert done.returncode == (2 if (launcher, error) == ("python", "InputError") else 1)
    printed = "error: of one rank" if error == "InputError" else f"{error}: of one rank"
    tried = done.stderr.count(printed)
    assert tried == 2 if launcher == "python" else tried >= 1
    logs = sorted((tmp_path / "runs").glob("naive*/rank*.log"))
    assert len(logs) == (1 if launcher == "python" else 2)
    assert any(f"{error}: of one rank" in log.read_text() for log in logs)
    began = [path for path in (tmp_path / "runs").glob("bload*") if path.is_dir()]
    assert bool(began) == (launcher == "python")
