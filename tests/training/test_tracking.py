"""wandb gets a copy of the figures, and is never in the way."""

from contextlib import closing
from unittest.mock import Mock

import pytest
import wandb
from PIL import Image

import train
from tests.training.jobs import metrics, one_rank, only_run, train_until
from training.checkpoint import Progress
from training.folder import RunFolder
from training.tracking import Tracker


class FakeRun:
    def __init__(self, **options):
        self.id, self.rows = options["id"] or "drawn", []
        self.step = 3 if options["resume"] else 0  # of the row after the last

    def log(self, values, step=None):
        if step is None or step >= self.step:  # else it is dropped
            self.step = self.step if step is None else step
            self.rows.append((self.step, values))

    def finish(self):
        pass


CALLS = [(wandb, "Settings"), (wandb, "init"), (wandb, "Image")]
CALLS += [(FakeRun, "log"), (FakeRun, "finish")]


@pytest.mark.parametrize(("where", "name"), CALLS, ids=[name for _, name in CALLS])
def test_a_call_of_wandb_that_fails_is_a_warning(
    where, name, config, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(wandb, "init", FakeRun)
    monkeypatch.setattr(where, name, Mock(side_effect=wandb.errors.CommError("no server")))
    Image.new("RGB", (9, 9)).save(tmp_path / "prediction.png")
    job = config("wandb.mode=online")
    with closing(
        Tracker(RunFolder(tmp_path), job, Progress(), is_new=True, active=True)
    ) as tracker:
        tracker.log("step", 1, 1, {"loss": 0.5})
        tracker.show(tmp_path / "prediction.png")
    assert capsys.readouterr().out.count("warning: wandb: no server") == 1
    assert metrics(tmp_path) == [{"kind": "step", "epoch": 1, "step": 1, "loss": 0.5}]


def test_figures_come_at_their_step_and_only_a_run_that_goes_on_keeps_its_id(
    config, tmp_path, monkeypatch
):
    asked, runs = [], []

    def init(**options):
        asked.append((options["id"], options["resume"]))
        assert options["settings"].reinit == "create_new"  # not the run of an earlier job
        runs.append(FakeRun(**options))
        return runs[-1]

    def draw(folder, *_):
        Image.new("RGB", (9, 9)).save(folder.picture)

    monkeypatch.setattr(wandb, "init", init)
    monkeypatch.setattr("training.report.page.write_or_warn", draw)
    job = ("wandb.mode=online", "train.epochs=1", "train.checkpoint_minutes=0", "train.log_every=1")
    train_until(one_rank(), config(*job), (0, 2))
    train.train(config(*job), one_rank())
    train.train(config(*job, "run.resume=never"), one_rank())
    assert asked == [(None, None), ("drawn", "allow"), (None, None)]
    for run in runs[1:]:
        assert any("summary/train_seconds" in row for _, row in run.rows)
    steps, rows = zip(*runs[-1].rows, strict=True)
    assert list(steps) == sorted(steps)  # else wandb drops a row
    lines = [line for line in metrics(only_run(tmp_path / "runs")) if line["kind"] == "step"]
    losses = [(step, row["step/loss"]) for step, row in runs[-1].rows if "step/loss" in row]
    assert losses == [(number, line["loss"]) for number, line in enumerate(lines, 1)]
    names = set().union(*rows)
    assert {"epoch/padding", "eval/with/recall@20", "summary/train_seconds"} <= names
    assert "pictures/prediction" in names
