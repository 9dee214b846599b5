"""Ways to feed ranks take turns through their epochs."""

import pandas as pd
import pytest

from bload import InputError
from experiments import epoch_time
from experiments.alternatives import measure, tables
from experiments.interleaved import steps_by_round
from tests.training.jobs import one_rank


def test_ways_take_turns_through_a_whole_epoch(command_line):
    overrides = command_line("loader=single,sampling,bload_exact", "model.skip_padding=false")
    rows = pd.DataFrame(measure(one_rank(), overrides, share=1, rounds=2))
    assert rows["round"].tolist() == [1, 2] * 4
    ways = rows[rows["round"] == 1].set_index("loader")
    assert [*ways.index] == ["single", "sampling", "sampling clips=all", "bload_exact"]
    assert (ways.frames + ways.deleted == 174).all()
    assert ways.deleted["sampling"] > ways.deleted["sampling clips=all"] > 0
    single, exact = ways.loc["single"], ways.loc["bload_exact"]
    assert single.deleted == exact.deleted == 0
    assert single.steps == 3  # of 3 of the 8 videos, about as many as fill 64 frames
    assert (single.padded, single.one_shape) == (0, False)
    assert (exact.padded, exact.one_shape) == (45 * exact.steps - 174, True)
    earlier = rows[~rows.loader.str.contains("clips")].assign(ranks=2)  # had no such way
    lines = [line.split("|") for line in tables(pd.concat([rows, earlier])).splitlines()]
    assert [line[3].strip() == "" for line in lines[2:]] == [False, False, True, False]


def test_a_loader_that_one_timing_left_out_has_empty_cells_there():
    figures = {"steps": 8, "slots": 64, "frames": 32, "round": [1, 2], "seconds_a_step": 0.5}
    ways = [("measured, 96 pixels", name) for name in ("naive", "mix", "bload")]
    ways += [("measured, 64 pixels", name) for name in ("naive", "bload")]
    keys = ["measured", "loader"]
    rows = [pd.DataFrame({**dict(zip(keys, way, strict=True)), **figures}) for way in ways]
    lines = epoch_time.tables(pd.concat(rows, ignore_index=True)).splitlines()
    cells = {
        line.split("|")[1].strip(): [*map(str.strip, line.split("|")[2:-1])]
        for line in lines
        if line
    }
    assert cells["measured, 64 pixels"] == ["", "1.00 [1.00, 1.00]"]
    assert cells["mix"][-2:] == ["500", ""]


def test_rounds_share_the_steps_evenly():
    assert steps_by_round(100, 0.3, 4) == [8, 7, 7, 8]
    with pytest.raises(InputError, match="a round has no step"):
        steps_by_round(100, 0.03, 4)
