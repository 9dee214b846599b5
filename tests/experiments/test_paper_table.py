"""Unlike runs are never averaged, and committed tables are those of the document."""

import pandas as pd

from experiments import ablations, default_run, tmax_sweep
from experiments.paper_table import recall_table, ways
from experiments.runs import read_runs
from experiments.study import DOCUMENT, RESULTS

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


def test_committed_tables_are_in_the_document():
    document = DOCUMENT.read_text()
    for name in ("reset_ablation", "padding_ablation", "temporal"):
        assert ablations.table(read_runs(RESULTS / name)) in document
    for study in (tmax_sweep, default_run):
        assert study.tables(RESULTS / study.__name__.split(".")[-1]) in document
