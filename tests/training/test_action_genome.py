"""Action Genome from the downloads to Recall@K by the commands that the doctor says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

from datasets.annotations.read import MADE_BY
from datasets.prepare.__main__ import main as prepare
from experiments import checkup
from experiments.doctor import main as ask
from models import weights
from tests.models.literal_detr import LiteralDETR
from tests.training.jobs import REPOSITORY, only_run
from tests.video_root import make_video_root
from training import packages

TINY = (
    *("model.backbone=resnet18", "model.width=16", "model.heads=2", "model.feedforward=24"),
    *("model.queries=7", "model.encoder_layers=2", "model.decoder_layers=2"),
    *("dataset.frame_size=[48,64]", "train.batch_frames=16", "train.epochs=1", "train.device=cpu"),
    "wandb.mode=disabled",
)
TAKES_LONG = ("memory", "training")


@pytest.fixture
def root(tmp_path) -> Path:
    return make_video_root(tmp_path / "root")


@pytest.fixture
def detr(tmp_path) -> Path:
    """DETR's weights, made up, at the width of `TINY`."""
    torch.manual_seed(5)
    sizes = {"width": 16, "heads": 2, "feedforward": 24, "queries": 7}
    state = LiteralDETR("resnet18", **sizes, layers=2).state_dict()
    torch.save({"model": state}, tmp_path / "detr.pth")
    return tmp_path / "detr.pth"


@pytest.fixture
def answer(capsys, tmp_path):
    """Ask the doctor; its status, its findings by name, and the next command.

    Only `whole` looks at memory and trains steps, which takes longest.
    """
    shorter = {name: check for name, check in checkup.CHECKS.items() if name not in TAKES_LONG}

    def ask_and_read(root, *more, whole=False):
        capsys.readouterr()
        job = [f"dataset.root={root}", f"run.root={tmp_path / 'runs'}", *TINY, *more]
        with mock.patch.object(checkup, "CHECKS", checkup.CHECKS if whole else shorter):
            status = ask([*job, "--seconds", "0.5"])
        said = capsys.readouterr().out
        lines, _, following = said.partition("\nnext: ")
        found = {}
        for line in lines.splitlines():
            name, _, text = line[9:].partition(": ")
            found[name] = line[:9].strip(), text
        return status, found, following.strip()

    return ask_and_read


def test_before_anything_is_there_the_doctor_says_where_it_comes_from(answer, tmp_path):
    status, found, following = answer(tmp_path, "model.weights=detr.pth")
    assert status == 1
    assert found["annotations"][0] == found["weights"][0] == "to do"
    assert "JingweiJ/ActionGenome" in found["annotations"][1]
    assert weights.DETR_URL in found["weights"][1]
    assert found["frames"][0] == "later"
    assert "synthetic" not in found["annotations"][1]
    assert found["videos"][1].startswith("9,201 of 9,201 videos ")
    assert re.match(rf"{re.escape(str(tmp_path))} needs 5\d\.\d GiB more", found["disk"][1])
    todo = [name for name, (mark, _) in found.items() if mark == "to do"]
    assert following.startswith(f"what is to do above ({', '.join(todo)})")
    _, found, _ = answer(tmp_path / "no", "model.weights=detr.pth")
    assert found["annotations"][1].startswith(f"there is no folder {tmp_path / 'no'}; put ")
    (tmp_path / MADE_BY).touch()
    _, found, _ = answer(tmp_path, "model.weights=detr.pth")
    assert "holds synthetic data" in found["annotations"][1]


def test_the_next_command_is_prepare_once_all_videos_are_there(answer, root, detr):
    given = f"model.weights={detr}"
    video = min((root / "videos").iterdir())
    aside = video.rename(root / video.name)
    status, found, following = answer(root, given)
    assert (status, found["videos"][0]) == (1, "to do")
    assert all(word in found["videos"][1] for word in (video.name, "charades", "1 of 7"))
    assert "videos" in following

    aside.rename(video)
    status, found, following = answer(root, given, whole=True)
    assert (status, following) == (0, f"python -m datasets.prepare --root {root}")
    assert {mark for mark, _ in found.values()} == {"ok"}
    assert re.search(r"\d (seconds|minutes) for 1 epoch and an evaluation", found["training"][1])
    assert "47 in 7 videos" in found["frames"][1]
    assert all("measured" in found[name][1] for name in ("frames", "training"))
    assert all("estimated" in found[name][1] for name in ("frames", "memory", "training", "disk"))
    assert not (root / "frames").exists()
    assert not [*root.glob(".pilot_*")]


def test_what_is_too_large_for_the_disk_or_lacks_weights_is_not_started(
    answer, root, detr, monkeypatch
):
    free = checkup.shutil.disk_usage(root)._replace(free=1000)
    with monkeypatch.context() as patch:
        patch.setattr(checkup.shutil, "disk_usage", lambda path: free)
        status, found, following = answer(root, f"model.weights={detr}")
    assert (status, found["disk"][0]) == (1, "to do")
    assert "disk" in following

    assert prepare(["--root", str(root), "--workers=1"]) == 0
    monkeypatch.setattr(weights, "DETR_URL", "http://127.0.0.1:9/detr-r50-e632da11.pth")
    status, found, following = answer(root, "model.weights=detr")
    assert (status, found["weights"][0]) == (1, "to do")
    assert "wget http://127.0.0.1:9/" in found["weights"][1]
    assert "weights" in following
    manifest = root / "frames" / "manifest.json"
    text = manifest.read_text()
    manifest.write_text("{")
    status, found, following = answer(root, "model.weights=null")
    assert (status, found["videos"][0]) == (1, "to do")
    assert str(manifest) in found["videos"][1]
    manifest.write_text(text)
    status, found, following = answer(root, "model.weights=null")
    assert status == 0
    assert found["weights"][0] == "warning"
    assert found["weights"][1].startswith("resnet18 starts from noise")
    assert following.startswith("torchrun train.py experiment=action_genome")


def test_packages_that_are_missing_are_named_before_they_are_imported(monkeypatch, capsys):
    assert packages.missing_packages() == []
    monkeypatch.setattr(packages, "_is_installed", lambda name: name not in ("wandb", "torch"))
    with pytest.raises(SystemExit, match="1"):
        packages.refuse_missing()
    said = capsys.readouterr().out
    assert all(word in said for word in ("torch, wandb", "pip install -r requirements.txt"))


def run(command: str, folder: Path, status: int = 0) -> str:
    """Type a command line as it stands, with the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}
    command = command.replace(" train.py", f" {REPOSITORY}/train.py")
    command = command.replace(" eval.py", f" {REPOSITORY}/eval.py")
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.mark.slow
def test_from_the_downloads_to_recall_by_the_commands_that_are_said(tmp_path, root, detr):
    tiny = " ".join([f"model.weights={detr}", *TINY])
    look = f"python -m experiments.doctor dataset.root={root} {tiny} --seconds 1"
    verify = f"python -m datasets.verify --root {root}"
    assert "missing frames" in run(verify, tmp_path, status=1)
    following = run(look, tmp_path).partition("\nnext: ")[2].strip()
    assert following == f"python -m datasets.prepare --root {root}"
    assert "47 frames there" in run(following, tmp_path)
    assert "problems in all: 0" in run(verify, tmp_path)

    following = run(look, tmp_path).partition("\nnext: ")[2].strip()
    assert following.startswith(f"torchrun train.py experiment=action_genome dataset.root={root}")
    said = run(following, tmp_path)
    assert "weights of a DETR" in said
    assert "warning" not in said
    folder = only_run(tmp_path / "runs" / "action_genome")
    assert folder.name.startswith("bload_exact-dds-action_genome-s0-")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["eval_frames"] == 16
    config = json.loads((folder / "config.json").read_text())
    assert config["dataset"]["augment"]["flip"] > 0
    run(f"python eval.py checkpoint={folder} out=figures.json device=cpu", tmp_path)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["with/recall@20"] == pytest.approx(summary["with/recall@20"])
