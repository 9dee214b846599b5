"""wandb gets a copy of the figures, and is never in the way."""

import json
import struct
from pathlib import Path

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

import train
from tests.training.jobs import interrupted, metrics, one_rank, only_run


def records(folder: Path) -> list[Record]:
    """What an offline run of wandb has on the disk: a log of LevelDB's format after a header."""
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    content, found, held, at = file.read_bytes(), [], b"", 7
    while at + 7 <= len(content):
        if 2**15 - at % 2**15 < 7:  # no piece begins in the last bytes of a block
            at += 2**15 - at % 2**15
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        held += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            found.append(Record.FromString(held))
            held = b""
    return found


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return "wandb.mode=offline"


@pytest.mark.slow
def test_an_offline_run_has_every_figure_at_its_step(config, tmp_path, offline):
    train.train(config(offline, "train.epochs=1", "train.log_every=1"), one_rank())
    rows = [
        {item.key or ".".join(item.nested_key): item.value_json for item in one.history.item}
        for one in records(tmp_path)
        if one.HasField("history")
    ]
    steps = [line for line in metrics(only_run(tmp_path / "runs")) if line["kind"] == "step"]
    losses = {int(row["_step"]): float(row["step/loss"]) for row in rows if "step/loss" in row}
    assert losses == {line["step"]: pytest.approx(line["loss"]) for line in steps}
    last = {key: value for row in rows for key, value in row.items()}
    assert {"epoch/padding", "eval/with/recall@20", "summary/train_seconds"} <= last.keys()
    assert {"pictures/blocks", "pictures/prediction"} <= {key.partition(".")[0] for key in last}


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
        self.rows.append(step)

    def finish(self):
        pass


def test_a_run_that_goes_on_keeps_its_id_and_one_that_begins_draws_another(config, monkeypatch):
    asked = []

    def init(**options):
        asked.append((options["id"], options["resume"]))
        return FakeRun(**options)

    monkeypatch.setattr(wandb, "init", init)
    job = ("wandb.mode=online", "train.epochs=1", "train.checkpoint_minutes=0")
    with interrupted((0, 2)), pytest.raises(KeyboardInterrupt):
        train.train(config(*job), one_rank())
    train.train(config(*job), one_rank())
    train.train(config(*job, "run.resume=never"), one_rank())
    assert asked == [(None, None), ("drawn", "allow"), (None, None)]
