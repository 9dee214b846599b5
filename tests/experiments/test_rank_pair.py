"""Two ranks end, or are ended; none outlives its parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from experiments import rank_pair
from tests.training.standing import rank_0_dies, rank_1_stands

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.dist

PARENT = """
from experiments import rank_pair
from tests.training.standing import say_and_stand

if __name__ == "__main__":
    rank_pair.PRELOADED = ["torch"]  # all that these ranks need
    rank_pair.run_pair(say_and_stand, patience=600)
"""


@pytest.fixture(autouse=True)
def _quick_server(monkeypatch):
    """A server of ranks that imports what these ranks need."""
    monkeypatch.setattr(rank_pair, "PRELOADED", ["torch"])


@pytest.fixture(autouse=True)
def _no_process_is_left():
    before = {*multiprocessing.active_children()}
    yield
    assert not {*multiprocessing.active_children()} - before


@pytest.mark.slow
def test_ranks_are_killed_when_neither_makes_progress_any_more():
    first, second = rank_pair.run_pair(rank_1_stands, patience=1.5)
    assert (first.ended, first.steps, first.planned) == ("finished", 5, 5)
    assert (second.ended, second.steps, second.planned) == ("running", 1, 5)
    assert first.seconds > 1.5
    assert 3 <= second.seconds < 60


def test_a_rank_that_dies_and_one_that_fails_are_told_apart():
    first, second = rank_pair.run_pair(rank_0_dies, patience=60)
    assert first.ended == "gone"
    assert (second.ended, second.message) == ("failed", "the other one is gone")


SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGKILL, *SLOW])
def test_ranks_end_with_their_parent(number, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert [parent.stdout.readline() for _ in range(2)] == [b"standing\n"] * 2
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)  # Ctrl-C reaches all processes of the terminal
        else:
            parent.send_signal(number)
        parent.communicate(timeout=30)  # to the end of the pipe, which every process holds
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
