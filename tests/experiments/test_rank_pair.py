"""Two ranks end, or are ended; none outlives its parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.rank_pair import RankPair
from tests.experiments.processes import all_end, running
from tests.experiments.standing import rank_0_dies, rank_1_stands

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.dist

PARENT = """
import sys
from experiments.rank_pair import RankPair
from tests.experiments.standing import tell_and_stand

if __name__ == "__main__":
    with RankPair() as pair:
        pair.run(tell_and_stand, patience=600)
"""


def test_a_rank_that_stands_still_is_killed_and_the_next_job_gets_new_ranks():
    with RankPair() as pair:
        first, second = pair.run(rank_1_stands, patience=1)
        assert (first.ended, first.steps, first.planned) == ("finished", 1, 2)
        assert (second.ended, second.steps, second.planned) == ("running", 1, 2)
        assert 1 <= second.seconds < 60
        assert not multiprocessing.active_children()

        first, second = pair.run(rank_0_dies, patience=60)
        assert first.ended == "gone"
        assert (second.ended, second.message) == ("failed", "the other one is gone")
        assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_ranks_end_with_their_parent(number, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids: list[int] = []
    try:
        pids += [int(parent.stdout.readline()) for _ in range(2)]
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)  # Ctrl-C reaches all processes of the terminal
        else:
            parent.send_signal(number)
        parent.wait(timeout=30)
        assert all_end(pids, within=30)
    finally:
        for pid in filter(running, [parent.pid, *pids]):
            os.kill(pid, signal.SIGKILL)
        parent.communicate()
