"""``experiment=smoke`` ends with a line that is true, green on a terminal alone."""

import sys
from pathlib import Path

import pytest
from training.smoke import all_right

import train
from bload.errors import InputError
from tests.training.jobs import compose_config, one_rank, only_run

SUMMARY = {"experiment": "smoke", "steps": 10.0, "eval_frames": 123.0}
MADE = {name: Path(name) for name in ("picture", "report")}


def test_the_line_is_green_on_a_terminal_alone_and_only_after_a_smoke_run(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "smoke: all right: data, 10 steps, 123 frames evaluated, a picture"
    assert all_right(SUMMARY, MADE) == f"\n\033[32m{text}\033[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert all_right(SUMMARY, MADE) == f"\n{text}\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert all_right(SUMMARY, MADE) == f"\n{text}\n"
    assert all_right({**SUMMARY, "experiment": None}, MADE) == ""


def test_a_smoke_run_without_its_picture_is_not_all_right():
    with pytest.raises(InputError, match="no picture"):
        all_right(SUMMARY, {"report": Path("report")})


def test_a_smoke_run_makes_data_trains_evaluates_and_draws_every_time(tmp_path, capsys):
    small = ["dataset.train_videos=8", "dataset.test_videos=2", "train.workers=0"]
    job = [f"dataset.root={tmp_path}/data", f"run.root={tmp_path}/runs", "train.device=cpu"]
    for _ in range(2):
        train.train(compose_config("train", ["experiment=smoke", *small, *job]), one_rank())
        said = capsys.readouterr().out
        *_, last = said.splitlines()
        assert last.startswith("smoke: all right")
        assert "too short to learn" in said
    assert (only_run(tmp_path / "runs") / "prediction.png").exists()
