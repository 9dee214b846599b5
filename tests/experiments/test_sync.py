"""One model under allreduce, several without, and what they send."""

import pytest

from experiments.sync import measure
from tests.training.jobs import one_rank

SIZE = 4 * 16_004
"""Bytes of the parameters."""


@pytest.mark.slow
@pytest.mark.dist
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
