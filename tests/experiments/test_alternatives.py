"""Ways to feed ranks take turns, and every one works through its share of an epoch."""

import pytest

from bload import InputError
from experiments.alternatives import ways
from experiments.turns import ALONE, on_ranks, steps_by_round

FRAMES = 174
"""Of all training videos, of which there are 8."""


def test_two_ways_take_turns_through_a_whole_epoch(command_line):
    overrides = command_line("loader=single,bload_exact", "model.padding=computed")
    single, exact = ways(ALONE, overrides=overrides, share=1, rounds=2)
    for row, loader in ((single, "single"), (exact, "bload_exact")):
        assert (row["loader"], row["padding"], row["ranks"]) == (loader, "computed", 1)
        assert (row["frames"], row["deleted"], row["imbalance"]) == (FRAMES, 0, 1)
        assert len(row["rates"]) == 2
        assert min(row["rates"]) > 0
    assert single["steps"] == 3  # of 3 videos, about as many as fill 64 frames
    assert (single["padded"], single["static"]) == (0, False)
    assert (exact["padded"], exact["static"]) == (45 * exact["steps"] - FRAMES, True)


def test_rounds_share_the_steps_evenly():
    assert steps_by_round(100, 0.3, 4) == [8, 7, 7, 8]
    assert steps_by_round(7, 1, 7) == [1] * 7
    with pytest.raises(InputError, match="a round has no step"):
        steps_by_round(100, 0.03, 4)


def test_more_ranks_than_two_are_refused():
    with pytest.raises(InputError, match="--ranks is 3; give 1, 2 or both"):
        on_ranks(3, lambda _: [])
