"""Every signal to every process of a run: it is saved, nothing is left, and it goes on."""

import os
import re
import signal
import time

import pytest

from experiments.soak import ended_or_left, marked, outcome, start

CASES = [
    ("launch.nproc=2", "launcher", signal.SIGTERM, 128 + signal.SIGTERM),
    ("launch.nproc=2", "launcher", signal.SIGINT, 128 + signal.SIGINT),
    ("launch.nproc=2", "launcher", signal.SIGUSR1, 128 + signal.SIGUSR1),
    ("launch.nproc=2", "torchrun", signal.SIGUSR2, None),
    ("launch.nproc=2", "rank", signal.SIGUSR2, None),
    ("launch.nproc=1", "launcher", signal.SIGTERM, 128 + signal.SIGTERM),
    ("torchrun", "torchrun", signal.SIGTERM, None),
    ("torchrun", "torchrun", signal.SIGUSR1, None),
    ("torchrun", "torchrun", signal.SIGKILL, None),
    ("torchrun", "rank", signal.SIGINT, None),
]
"""How a run is started, which process is hit by what, its status where that is ours to say."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, and a run of one and of two ranks that nobody disturbed."""
    folder = tmp_path_factory.mktemp("signals")
    for ranks in "12":
        assert start(folder, folder / ranks, f"launch.nproc={ranks}", ranks).wait() == 0
    return folder


def wait_for_steps(runs, process):
    """Wait until the first epoch is done."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if any('"epoch"' in path.read_text() for path in runs.glob("*/metrics.jsonl")):
            return
        time.sleep(0.1)
    pytest.fail("no epoch was trained")


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
        where = "(.*last.pt: epoch|before this evaluation)"
        assert re.search(rf"stopped by {number.name}; the same command goes on from {where}", said)
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
    for _ in range(2):
        wait_for_steps(runs, process)
        ranks = [pid for pid, role in marked(mark).items() if role == "rank"]
        os.kill(max(ranks), signal.SIGKILL)
        time.sleep(5)
    assert process.wait(120) == 0
    assert outcome(runs) == outcome(folder / "2")
