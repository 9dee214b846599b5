"""A checkpoint is whole or not there, and reading one runs nothing."""

import os
import shutil
from dataclasses import asdict

import pytest
import torch

import train
from bload.errors import InputError
from datasets.files import write_whole
from tests.training.jobs import assert_same_state, checkpoint, one_rank
from training.checkpoint import check_same_model, load_checkpoint
from training.compose import compose_job

STATE = {"model": {"weight": torch.arange(6.0)}, "config": {"model": {"width": 6}}}


def test_a_file_and_its_folder_are_on_the_disk_once_it_is_written(tmp_path, monkeypatch):
    def sync(file):
        synced.append((os.fstat(file).st_ino, path.exists()))

    path, synced = tmp_path / "file", []
    monkeypatch.setattr(os, "fsync", sync)
    write_whole(path, "text")
    assert synced == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_a_flipped_bit_is_noticed_or_changes_nothing_and_a_cut_is_noticed(tmp_path):
    path = tmp_path / "last.pt"
    torch.save(STATE, path)
    good = path.read_bytes()
    draw = torch.Generator().manual_seed(0)
    noticed = 0
    for _ in range(300):
        damaged = bytearray(good)
        place = int(torch.randint(len(good), (), generator=draw))
        damaged[place] ^= 1 << int(torch.randint(8, (), generator=draw))
        path.write_bytes(damaged)
        try:
            assert_same_state(load_checkpoint(path), STATE)
        except InputError as error:
            noticed += "last.pt cannot be read" in str(error)
    assert noticed > 100  # the rest of such a small file are names and times of its parts
    for size in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(InputError, match=r"last.pt cannot be read"):
            load_checkpoint(path)


CHANGES = {
    "'loader'": lambda saved: saved.pop("loader"),
    "Missing key": lambda saved: saved["model"].popitem(),
    "": lambda saved: saved["loader"]["plan"].update({"blocks per step": "1"}),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_part_that_is_missing_or_does_not_fit_is_named(words, finished, config, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "runs" / finished.name)
    (folder / "summary.json").unlink()
    CHANGES[words](saved := checkpoint(folder))
    torch.save(saved, folder / "last.pt")
    with pytest.raises(InputError) as error:
        train.train(config("train.epochs=1", "train.log_every=1"), one_rank())
    assert words in str(error.value)


def test_another_model_is_named_by_what_differs():
    cfg = compose_job("train", [])
    saved = asdict(cfg)
    saved["model"] |= {"weights": "somewhere", "recompute": "backbone"}
    del saved["model"]["time"]
    check_same_model(saved, cfg, "last.pt")  # how it began, what it keeps, a newer key's default
    other = compose_job("train", ["model.width=32", "model.time=gap"])
    with pytest.raises(InputError, match=r"model.time was none and is gap; model.width was 64 and"):
        check_same_model(saved, other, "last.pt")
