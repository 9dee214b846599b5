"""Figures of the documents are those that the studies make of the committed files."""

import runpy
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.study import ROOT

COMMANDS = [
    *("ablations", "alternatives", "balance", "convergence", "deadlock"),
    *("epoch_time", "horizon", "movielens", "one_rank", "paper_table", "rates", "sync"),
    *("open_questions", "tmax_sweep"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("lengths", "sources")),
    "benchmarks/__main__ --tables packing loading scaling trainer gpu chunks",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_study_writes_what_the_documents_hold(command, monkeypatch):
    written = []
    monkeypatch.setattr(Path, "write_text", lambda *path_and_text: written.append(path_and_text))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", command.split())
    runpy.run_path(f"{ROOT}/experiments/{sys.argv[0]}.py", run_name="__main__")
    assert written
    for path, text in written:
        assert text == path.read_text()
