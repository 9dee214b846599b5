"""A checkpoint is whole or not there, and reading one runs nothing."""

import pytest
import torch

from bload.errors import InputError
from tests.training.jobs import assert_same_state
from training.checkpoint import load_checkpoint

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
