"""From videos to recall: the commands of a researcher who has the downloads, one after another."""

import json
import re
from pathlib import Path
from unittest import mock

import pytest

import train
from datasets.augmentation import Augmentation
from datasets.prepare.__main__ import main as prepare
from datasets.prepare.check import check
from models.dds import DDS
from tests.training.jobs import evaluate, metrics, one_rank, only_run
from tests.video_root import make_video_root
from training.compose import compose_job


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = make_video_root(tmp_path_factory.mktemp("downloaded") / "root")
    assert prepare(["--root", str(root), "--workers=1"]) == 0
    assert not check(root)[1]
    return root


def job(root: Path, runs: Path, *more: str) -> dict:
    return compose_job(
        "train",
        [
            "dataset=action_genome",
            f"dataset.root={root}",
            "dataset.frame_size=[48,64]",
            "loader=bload",
            "model.time=gap",
            "train.batch_slots=16",
            "train.epochs=1",
            "train.workers=0",
            "train.device=cpu",
            "wandb.mode=disabled",
            f"run.root={runs}",
            *more,
        ],
    )


@pytest.mark.usefixtures("pages")
def test_videos_become_frames_train_a_model_and_are_evaluated(root, tmp_path, capsys):
    train.train(job(root, tmp_path / "runs"), one_rank())
    folder = only_run(tmp_path / "runs")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["steps"] >= 2
    assert summary["eval_frames"] == 16
    said = capsys.readouterr().out
    assert re.search(rf"^run folder +{folder}$", said, re.M)
    assert "ideal observers" not in said  # nobody knows what is possible without memory
    assert (folder / "prediction.png").exists()
    page = (folder / "report.html").read_text()
    assert "possible without memory" not in page
    assert all(words in page for words in ("Recall@20", "dataset.root"))

    out = tmp_path / "figures.json"
    evaluate(f"checkpoint={folder}", f"out={out}", "pictures=1")
    figures = json.loads(out.read_text())
    assert figures["with/recall@20"] == pytest.approx(summary["with/recall@20"])
    said = capsys.readouterr().out
    assert [path.suffix for path in (folder / "pictures_last_test").iterdir()] == [".png"]
    assert "needs memory" not in said


def test_without_videos_to_validate_on_nothing_is_evaluated_before_the_end(root, tmp_path):
    for share, frames, evaluations in ((0, 26, 0), (0.25, 22, 2)):
        more = ("train.eval_every=1", "train.epochs=2", f"dataset.validation={share}")
        summary = train.train(job(root, tmp_path / f"{share}", *more), one_rank())
        folder = only_run(tmp_path / f"{share}")
        assert summary["frames"] == frames
        assert (summary["split"], summary["eval_frames"]) == ("test", 16)
        assert [line["kind"] for line in metrics(folder)].count("eval") == evaluations
        assert (folder / "best.pt").exists() == (share > 0)


def test_the_network_gets_extents_and_gaps_and_every_epoch_is_drawn_anew(root, tmp_path):
    forward, drawn, told = DDS.forward, Augmentation.__call__, []
    epochs = set()

    def listen(model, frames, *more):
        told.append((model.training, frames.extent_BT2, frames.gap_BT))
        return forward(model, frames, *more)

    def draw(augmentation, *inputs):
        epochs.add(inputs[-1])
        return drawn(augmentation, *inputs)

    with (
        mock.patch.object(DDS, "forward", listen),
        mock.patch.object(Augmentation, "__call__", draw),
    ):
        train.train(job(root, tmp_path / "runs", "train.epochs=2"), one_rank())
    assert epochs == {0, 1}
    for training in (True, False):
        extents = [extent_BT2 for mode, extent_BT2, _ in told if mode == training]
        assert extents
        assert all((extent_BT2 < 0.99).any() for extent_BT2 in extents)
        assert any(gap_BT.max() > 1 for mode, _, gap_BT in told if mode == training)
