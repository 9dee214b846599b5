"""wandb gets a copy of the figures, and is never in the way."""

import json

import pytest
import wandb

import train
from tests.training.jobs import interrupted, metrics, one_rank, only_run


def test_a_wandb_that_fails_is_a_warning_and_training_goes_on(
    config, tmp_path, capsys, monkeypatch
):
    def fail(**_):
        raise wandb.errors.CommError("no server")

    monkeypatch.setattr(wandb, "init", fail)
    train.train(config("wandb.mode=online", "train.epochs=1"), one_rank())
    assert "warning: wandb: no server" in capsys.readouterr().out
    assert json.loads((only_run(tmp_path / "runs") / "summary.json").read_text())["epochs"] == 1


class FakeRun:
    def __init__(self, **options):
        self.id, self.rows = options["id"] or "drawn", []

    def log(self, values, step):
        self.rows.append((step, values))

    def finish(self):
        pass


def test_figures_come_at_their_step_and_only_a_run_that_goes_on_keeps_its_id(
    config, tmp_path, monkeypatch
):
    asked, runs = [], []

    def init(**options):
        asked.append((options["id"], options["resume"]))
        runs.append(FakeRun(**options))
        return runs[-1]

    monkeypatch.setattr(wandb, "init", init)
    job = ("wandb.mode=online", "train.epochs=1", "train.checkpoint_minutes=0", "train.log_every=1")
    with interrupted((0, 2)), pytest.raises(KeyboardInterrupt):
        train.train(config(*job), one_rank())
    train.train(config(*job), one_rank())
    train.train(config(*job, "run.resume=never"), one_rank())
    assert asked == [(None, None), ("drawn", "allow"), (None, None)]
    steps, rows = zip(*runs[-1].rows, strict=True)
    assert list(steps) == sorted(steps)  # else wandb drops a row
    lines = [line for line in metrics(only_run(tmp_path / "runs")) if line["kind"] == "step"]
    losses = [(step, row["step/loss"]) for step, row in runs[-1].rows if "step/loss" in row]
    assert losses == [(number, line["loss"]) for number, line in enumerate(lines, 1)]
    names = set().union(*rows)
    assert {"epoch/padding", "eval/with/recall@20", "summary/train_seconds"} <= names
    assert {"pictures/blocks", "pictures/prediction"} <= names
