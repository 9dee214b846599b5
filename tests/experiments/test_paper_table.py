"""Unlike runs are never averaged."""

import pandas as pd
import pytest

from bload import InputError
from experiments.paper_table import name_left_out, recall_table, runs_by_table, split_ways

TEMPORAL = "model.temporal"
T_MAX = "naive", "bload", "bload, loader.t_max=128"


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged():
    runs = pd.DataFrame({"loader.name": ["bload", "naive"] * 3, "train.seed": [0, 0, 1, 1, 2, 2]})
    runs = runs.assign(epochs=5, all_steps=270, slots=90, remembered=1.0, **{TEMPORAL: "dds"})
    runs = runs.assign(run="one", **{"experiment.name": "paper_table"})
    runs = runs.assign(recall=[60.0, 65, 61, 66, 62, 68], split="final", **{"train.lr": 0.001})
    assert [(name, len(seeds)) for name, seeds in split_ways(runs)] == [("naive", 3), ("bload", 3)]
    assert "-5.3 [-6.8, -3.9]*" in recall_table(runs, "")  # by seed
    with pytest.raises(InputError, match="one has the seed of another"):
        [*split_ways(pd.concat([runs, runs]))]
    assert len([*split_ways(runs.assign(**{"train.workers": [0, 0, 1, 1, 2, 2]}))]) == 2
    by_clips = runs.replace("naive", "sampling").assign(**{"loader.clips": ["", "all"] * 3})
    assert [name for name, _ in split_ways(by_clips)] == ["sampling clips=all", "bload"]
    shorter = pd.concat([runs, runs.assign(epochs=1)])
    assert [name for name, _ in split_ways(shorter)] == ["naive", "naive", "bload", "bload"]
    more = pd.concat([runs, runs[::2].assign(**{TEMPORAL: "gru"})])
    names = [f"bload, {TEMPORAL}={of}" for of in ("dds", "gru")]
    assert [name for name, _ in split_ways(more)][1:] == names
    assert "-5.3" not in recall_table(more, "")  # which of the two would be less?
    larger = runs[::2].assign(**{"loader.t_max": 128.0})  # null elsewhere, as for all of naive
    assert "bload loader.t_max=128 train.seed" in recall_table(pd.concat([runs, larger]), "")
    names = [name for name, _ in split_ways(pd.concat([runs, larger]))]
    assert names == [*T_MAX]
    assert [*dict(split_ways(runs.replace("naive", "mine")))] == ["bload", "mine"]


def test_what_is_in_no_table_is_named():
    runs = pd.DataFrame({"loader.name": ["mix", "naive", "bload"], "ranks": [1, 1, 2], "epochs": 1})
    runs = runs.assign(t_max=94, slots=90, step_slots=[94, 94, 188])
    left_out, absent = name_left_out(runs, runs_by_table(runs)).strip().split("\n\n")
    assert left_out == "Of other steps or epochs, and so in no table: 1 run (bload)."
    assert absent == "No finished run of sampling, bload_exact."
