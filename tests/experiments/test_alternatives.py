"""Ways to feed ranks take turns through their epochs."""

import pandas as pd
import pytest

from bload import InputError
from experiments.alternatives import measure, tables
from experiments.interleaved import steps_by_round
from tests.training.jobs import one_rank


def test_ways_take_turns_through_a_whole_epoch(command_line):
    overrides = command_line("loader=single,sampling,bload_exact", "model.skip_padding=false")
    skip = "model.skip_padding=true"
    rows = pd.DataFrame(measure(one_rank(), overrides, share=1, rounds=2))
    assert rows["round"].tolist() == [1, 2] * 4
    ways = rows[rows["round"] == 1].set_index("loader")
    assert [*ways.index] == ["single", "sampling", "sampling clips=all", "bload_exact"]
    assert (ways.frames + ways.deleted == 174).all()
    assert ways.deleted["sampling"] > ways.deleted["sampling clips=all"] > 0
    assert ways.steps["single"] == 3  # of 3 of the 8 videos, about as many as fill 64 frames
    earlier = rows[~rows.loader.str.contains("clips")].assign(ranks=2)  # had no such way
    lines = [line.split("|") for line in tables(pd.concat([rows, earlier])).splitlines()]
    assert [line[3].strip() == "" for line in lines[2:]] == [False, False, True, False]
    for more, words in (("train.batch_slots=64,94", "give other keys one value"), (skip, "base")):
        with pytest.raises(InputError, match=words):
            measure(one_rank(), [*overrides, more], share=1, rounds=2)


def test_rounds_share_the_steps_evenly():
    assert steps_by_round(100, 0.3, 4) == [8, 7, 7, 8]
    with pytest.raises(InputError, match="a round has no step"):
        steps_by_round(100, 0.03, 4)
