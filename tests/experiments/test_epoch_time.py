"""Loaders that take turns: equally many rounds, and the steps that a share of an epoch has."""

import json
import sys

import pytest

from experiments.epoch_time import main, steps_by_round
from tests.experiments.jobs import DATA_KNOBS


def test_a_share_of_the_steps_is_spread_evenly_over_rounds():
    for steps, share, rounds in ((7464, 0.1, 20), (847, 0.15, 40), (10, 1, 3)):
        found = steps_by_round(steps, share, rounds)
        assert (len(found), sum(found)) == (rounds, round(share * steps))
        assert max(found) - min(found) <= 1


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
