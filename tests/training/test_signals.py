"""Every signal to every process of a run: it is saved, nothing is left, and it goes on."""

import os
import re
import signal
import time

import pytest

from experiments.soak import ended_or_left, marked, outcome, start
from tests.training.test_launch import train_py

LARGE = ("dataset.train_videos=2000", "train.device=cpu", "wandb.mode=disabled")

CASES = [
    ("launch.nproc=2", "launcher", signal.SIGTERM, 128 + signal.SIGTERM),
    ("launch.nproc=2", "launcher", signal.SIGINT, 128 + signal.SIGINT),
    ("launch.nproc=2", "launcher", signal.SIGUSR1, 128 + signal.SIGUSR1),
    ("launch.nproc=2", "torchrun", signal.SIGTERM, 128 + signal.SIGTERM),
    ("launch.nproc=2", "torchrun", signal.SIGUSR2, 128 + signal.SIGTERM),
    ("launch.nproc=2", "rank", signal.SIGUSR2, 128 + signal.SIGUSR2),
    ("launch.nproc=2", "rank", signal.SIGHUP, 128 + signal.SIGHUP),
    ("launch.nproc=1", "launcher", signal.SIGTERM, 128 + signal.SIGTERM),
    ("torchrun", "torchrun", signal.SIGTERM, None),
    ("torchrun", "torchrun", signal.SIGUSR1, None),
    ("torchrun", "torchrun", signal.SIGKILL, None),
    ("torchrun", "rank", signal.SIGINT, None),
]
"""How a run is started, which process is hit by what, its status where that is ours to say.

Torchrun ends its ranks by TERM, whatever signal it gets.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, and a run of one and of two ranks that nobody disturbed."""
    folder = tmp_path_factory.mktemp("signals")
    for ranks in "12":
        assert start(folder, folder / ranks, f"launch.nproc={ranks}", ranks).wait() == 0
    return folder


def lines(runs):
    return sum(len(path.read_text().splitlines()) for path in runs.glob("*/metrics.jsonl"))


def wait_for_steps(runs, process, after=0):
    """Wait for a line of metrics that was not there before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if lines(runs) > after:
            return
        time.sleep(0.1)
    pytest.fail("no step was trained")


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize(
    ("how", "victim", "number", "status"), CASES, ids=lambda case: getattr(case, "name", str(case))
)
def test_a_signal_saves_and_the_same_command_goes_on(how, victim, number, status, folder, tmp_path):
    runs, mark = tmp_path / "runs", f"{os.getpid()}-{how}-{victim}-{number}"
    process = start(folder, runs, how, mark)
    wait_for_steps(runs, process)
    pid = min(pid for pid, role in marked(mark).items() if role == victim)
    os.kill(pid, number)
    assert not ended_or_left(process, mark, time.monotonic() + 15)
    if status is not None:
        assert process.returncode == status
        said = (folder / f"{mark}.log").read_text()
        name, where = signal.Signals(status - 128).name, "(.*last.pt: epoch|.* this evaluation)"
        assert re.search(rf"stopped by {name}; the same command goes on from {where}", said)
        assert "Traceback" not in said
    assert process.returncode != 0
    (saved,) = runs.glob("*/last.pt")
    assert not [*saved.parent.glob("summary.json")]
    assert start(folder, runs, how, mark).wait() == 0
    assert outcome(runs) == outcome(folder / ("1" if how.endswith("1") else "2"))


@pytest.mark.slow
@pytest.mark.dist
def test_torchrun_starts_ranks_again_and_they_go_on(folder, tmp_path):
    runs, mark = tmp_path / "runs", f"{os.getpid()}-restarts"
    process = start(folder, runs, "torchrun --max-restarts=2", mark)
    before = 0
    for _ in range(2):
        wait_for_steps(runs, process, before)
        ranks = [pid for pid, role in marked(mark).items() if role == "rank"]
        os.kill(max(ranks), signal.SIGKILL)
        time.sleep(2)  # until they are gone, and nobody is there again
        before = lines(runs)
    assert process.wait(120) == 0
    assert outcome(runs) == outcome(folder / "2")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_while_data_are_made_leaves_no_data_set(tmp_path, number):
    data = tmp_path / "data"
    process = train_py(f"dataset.root={data}", f"run.root={tmp_path / 'runs'}", *LARGE)
    deadline = time.monotonic() + 120
    while not (begun := [*tmp_path.glob(".data.partial/frames/*/*")]):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}; give the same command again" in said
    assert "Traceback" not in said
    assert begun
    assert not data.exists()
    assert not (tmp_path / "runs").exists()
