"""Tables of runs are the same from folders as from the committed files that are made of them."""

import sys

import pandas as pd
import pytest

from bload.errors import InputError
from experiments import runs
from experiments.runs import read_curves, read_runs
from tests.training.jobs import contents


def test_tables_of_folders_are_those_of_the_files_made_of_them(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["runs", str(finished.parent), str(tmp_path)])
    runs.main()
    assert sorted(contents(tmp_path)) == ["curves.csv", "runs.csv"]
    for read, columns in (
        (
            read_runs,
            ["run", "commit", "train.seed", "loader.name", "recall", "remembered", "slots"],
        ),
        (read_curves, ["run", "epoch", "processed", "frames", "loss", "recall"]),
    ):
        of_folders, of_files = read(finished.parent), read(tmp_path)
        assert len(of_folders) == 1
        pd.testing.assert_frame_equal(of_folders[columns], of_files[columns], check_dtype=False)


def test_a_folder_without_a_finished_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="train some runs first"):
        read_runs(tmp_path)
