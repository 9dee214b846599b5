"""Start tables left out or wrong; of filled padding, the gradient: `test_gradients`."""

import pytest
import torch

from bload import InputError
from tests.models.conftest import random_input
from training.ablations import change_starts

BLOCKS = random_input([[3, 5, 4, 6], [20], [], [7, 3], [1, 1, 1, 2]], slots=20)
VALID_BT, START_BT = BLOCKS.valid_BT, BLOCKS.start_BT


def test_wrong_starts_are_as_many_and_all_in_the_middle_of_a_sequence():
    for seed in range(20):
        wrong_BT = change_starts(START_BT, VALID_BT, "wrong", seed)
        assert wrong_BT.sum(1).tolist() == [4, 1, 0, 2, 2]  # the last has one slot in mid-sequence
        assert torch.equal(wrong_BT[:, 0], START_BT[:, 0])
        assert not (wrong_BT & ~VALID_BT).any()
        assert not (wrong_BT & START_BT)[:, 1:].any()
    goes_on_BT = START_BT & (torch.arange(20) > 0)  # rows without a start at slot 0
    assert change_starts(goes_on_BT, VALID_BT, "wrong", 0)[0].sum() == 3


def test_repeated_padding_of_rows_that_go_on_is_refused(config):
    with pytest.raises(InputError, match=r"set train\.padding=masked"):
        config("train.padding=repeated", "loader.long=carry", "loader.t_max=20")
