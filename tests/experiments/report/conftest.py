"""A folder with every experiment, made once, and the report made of it."""

import shutil

import pytest

from experiments.report import packing
from experiments.report.page import write_report
from tests.experiments.report.made_runs import make_everything


@pytest.fixture(scope="session", autouse=True)
def _few_plans():
    packing.EPOCHS = 2


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """All experiments, their report, its charts and table beside it; not to be written to."""
    runs = make_everything(tmp_path_factory.mktemp("made") / "runs")
    write_report(runs, charts=runs.parent / "charts", latex=runs.parent / "table.tex")
    return runs


@pytest.fixture
def copied(made, tmp_path):
    """A copy of them, to be spoilt."""
    return shutil.copytree(made, tmp_path / "runs")
