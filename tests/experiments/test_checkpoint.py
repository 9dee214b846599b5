"""A checkpoint is whole or not there, and reading one runs nothing."""

from dataclasses import asdict, replace

import pytest
import torch

from bload.errors import InputError
from datasets.write_whole import write_whole
from experiments.checkpoint import check_same_model, load_checkpoint
from tests.experiments.jobs import compose_config

STATE = {"model": {"weight": torch.arange(6.0)}, "config": {"model": {"width": 6}}}


def save_checkpoint(path, state):
    write_whole(path, lambda part: torch.save(state, part))


class Unsaveable:
    def __reduce__(self):
        raise OSError("the disk is full")


def test_a_folder_stands_for_its_last_checkpoint(tmp_path):
    save_checkpoint(tmp_path / "last.pt", STATE)
    assert load_checkpoint(tmp_path)["config"] == STATE["config"]


def test_an_error_while_writing_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    before = path.read_bytes()
    with pytest.raises(OSError, match="the disk is full"):
        save_checkpoint(path, {**STATE, "model": [torch.ones(9), Unsaveable()]})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]


def test_any_damage_ends_in_a_sentence_or_changes_nothing(tmp_path):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    good = path.read_bytes()
    draw = torch.Generator().manual_seed(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(good)
        for place in torch.randint(len(good), (3,), generator=draw).tolist():
            damaged[place] ^= 1 << int(torch.randint(8, (), generator=draw))
        path.write_bytes(damaged)
        try:
            state = load_checkpoint(path)
        except InputError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
        else:  # in the zeros between the tensors
            assert state["config"] == STATE["config"]
            assert torch.equal(state["model"]["weight"], STATE["model"]["weight"])
    assert refused > 100
    for size in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(InputError, match="cannot be read as a checkpoint"):
            load_checkpoint(path)


def test_another_model_is_named_by_what_differs():
    wanted = compose_config("train", []).model
    saved = asdict(wanted) | {"weights": "somewhere", "checkpoint": "backbone"}
    check_same_model(saved, wanted, "last.pt")  # how it began and what it keeps may differ
    with pytest.raises(InputError, match=r"model.width was 64 and is 32.*model.time was None and"):
        check_same_model(
            {key: value for key, value in saved.items() if key != "time"},
            replace(wanted, width=32),
            "last.pt",
        )
