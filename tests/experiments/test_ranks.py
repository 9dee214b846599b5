"""Plain DDP on uneven ranks times out, all else ends; models under allreduce and without it."""

import pytest

from bload import PACKERS
from experiments import deadlock
from experiments.sync import measure
from tests.training.jobs import one_rank

LENGTHS = (40, 9, 33, 20, 50, 7, 21, 14)
"""Clips of 16 frames: 3 + 3 + 4 + 2 on rank 0, 1 + 2 + 1 + 1 on rank 1."""
SIZE = 4 * 16_004
"""Bytes of the parameters of the model of `sync`."""
pytestmark = pytest.mark.dist


def test_plain_ddp_on_uneven_ranks_waits_until_gloo_gives_up():
    for patience in (1.0, 10.0, 60.0):  # a rank of a busy machine may give up too
        epoch = deadlock.Epoch(deadlock.PLAIN, deadlock.UNEVEN, LENGTHS, patience)
        waits, done = deadlock.run_ranks(epoch)
        if not done["says"]:
            break
    assert (done["steps"], done["planned"], done["says"]) == (5, 5, "")
    assert (waits["steps"], waits["planned"]) == (5, 12)
    assert "timed out" in waits["says"].lower()


@pytest.mark.slow
def test_everything_else_ends():
    plain, joined, left, *blocks = deadlock.measure(videos=12, timeout=5.0)
    assert (plain["ended"], joined["ended"], left["ended"]) == ("timed out", "finished", "failed")
    assert joined["steps_0"] == plain["planned_0"] != joined["steps_1"] == plain["planned_1"]
    assert [row["ended"] for row in blocks] == ["finished"] * len(PACKERS)
    assert all(row["steps_0"] == row["steps_1"] > 0 for row in blocks)


@pytest.mark.slow
def test_two_ranks_under_allreduce_train_as_one_and_others_send_what_they_say(two_ranks):
    (one,) = measure(one_rank(), sequences=200, seeds=1)
    rows, same_rows = two_ranks.run(measure, 200, 1)
    assert rows == same_rows
    same, local, gossip, none = rows[:4]
    assert same["loss"] == pytest.approx(one["loss"], rel=1e-4)
    assert one["bytes_per_step"] == none["bytes_per_step"] == 0
    for row, times in ((same, 1), (gossip, 1), (local, 2 / local["steps"])):
        assert row["bytes_per_step"] == pytest.approx(times * SIZE, rel=0.1)
    assert none["loss"] != pytest.approx(same["loss"], rel=1e-4)  # its ranks are apart
