"""Unlike runs are never averaged."""

import pandas as pd

from experiments.paper_table import recall_table, ways

TEMPORAL = "model.temporal"


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged():
    runs = pd.DataFrame({"loader.name": ["bload", "naive"] * 3, "train.seed": [0, 0, 1, 1, 2, 2]})
    runs = runs.assign(epochs=5, all_steps=270, slots=90, remembered=1.0, **{TEMPORAL: "dds"})
    runs = runs.assign(recall=[60.0, 65, 61, 66, 62, 67])
    assert [(name, len(of)) for name, of in ways(runs)] == [("naive", 3), ("bload", 3)]
    assert "-5.0 [-7.3, -2.7]" in recall_table(runs, "")
    shorter = pd.concat([runs, runs.assign(epochs=1)])
    assert [name for name, _ in ways(shorter)] == ["naive", "naive", "bload", "bload"]
    more = pd.concat([runs, runs[::2].assign(**{TEMPORAL: "gru"})])
    names = [f"bload, {TEMPORAL}={of}" for of in ("dds", "gru")]
    assert [name for name, _ in ways(more)][1:] == names
    assert "-5.0" not in recall_table(more, "")  # which of the two would be less?
