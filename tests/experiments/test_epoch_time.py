"""Loaders that take turns: equally many rounds, and all steps of an epoch."""

import json
import sys

import pytest

from experiments.epoch_time import main
from tests.training.jobs import DATA_KNOBS


@pytest.mark.slow
def test_every_loader_takes_its_turn(data_root, tmp_path, monkeypatch, capsys):
    knobs = [*DATA_KNOBS, f"dataset.root={data_root}", "train.batch_frames=53", "--share=1"]
    line = ["epoch_time.py", f"--out={tmp_path}", *knobs]
    monkeypatch.setattr(sys, "argv", [*line, "--rounds=2", "loader=naive,mix"])
    main()
    rows = json.loads((tmp_path / "epoch_turns.json").read_text())["rows"]
    assert [(row["loader"], row["timed_steps"]) for row in rows] == [("naive", 8), ("mix", 4)]
    for row in rows:
        assert (row["frames"], row["steps"]) == (174, row["timed_steps"])
        assert len(row["seconds_a_step"]) == 2
        assert min(row["seconds_a_step"]) > 0
    assert f"{rows[0]['slots']:,}" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*line, "--rounds=50", "loader=naive"])
    with pytest.raises(SystemExit, match="2"):
        main()
