"""A checkpoint is whole or not there, and reading one runs nothing."""

import pytest
import torch

from bload.errors import InputError
from tests.training.jobs import assert_same_state
from training.checkpoint import check_same_network, load_checkpoint
from training.compose import compose_job

STATE = {"model": {"weight": torch.arange(6.0)}, "config": {"model": {"width": 6}}}


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


def test_another_network_is_named_by_what_differs():
    cfg = compose_job("train", []).model
    saved = vars(cfg) | {"weights": "somewhere", "recompute": "backbone"}
    check_same_network(saved, cfg, "last.pt")  # how it began, and what it keeps
    with pytest.raises(InputError, match=r"another model: model.heads was 8 and is 4"):
        check_same_network(saved | {"heads": 8}, cfg, "last.pt")
