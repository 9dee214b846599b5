"""Start tables that are left out or wrong, and what they do to a state."""

import numpy as np
import pytest
import torch

from bload import InputError, make_plan
from experiments.starts import STARTS, change_starts


def masks(*blocks, t_max=20):
    """valid_BT and start_BT of blocks given as lists of segment lengths."""
    valid_BT = torch.zeros(len(blocks), t_max, dtype=torch.bool)
    start_BT = torch.zeros_like(valid_BT)
    for b, lengths in enumerate(blocks):
        valid_BT[b, : sum(lengths)] = True
        start_BT[b, [sum(lengths[:i]) for i in range(len(lengths))]] = True
    return valid_BT, start_BT


VALID_BT, START_BT = masks([3, 5, 4, 6], [20], [], [7, 3], [1, 1, 1, 2])


def test_the_table_stays_as_it_is_packed():
    assert torch.equal(change_starts(START_BT, VALID_BT, "table"), START_BT)


def test_ignoring_leaves_the_first_slot_alone():
    ignored_BT = change_starts(START_BT, VALID_BT, "ignored")
    assert ignored_BT.nonzero().tolist() == [[0, 0], [1, 0], [3, 0], [4, 0]]


@pytest.mark.parametrize("seed", range(20))
def test_wrong_starts_are_as_many_and_all_in_the_middle_of_a_sequence(seed):
    wrong_BT = change_starts(START_BT, VALID_BT, "wrong", seed)
    assert wrong_BT.sum(1).tolist() == [4, 1, 0, 2, 2]  # the last has one slot in mid-sequence
    assert torch.equal(wrong_BT[:, 0], START_BT[:, 0])
    assert not (wrong_BT & ~VALID_BT).any()
    assert not (wrong_BT & START_BT)[:, 1:].any()


def test_wrong_starts_are_a_function_of_seed_and_block_alone():
    wrong_BT = change_starts(START_BT, VALID_BT, "wrong", seed=3)
    order = [3, 0, 4]
    again_BT = change_starts(START_BT[order], VALID_BT[order], "wrong", seed=3)
    assert torch.equal(again_BT, wrong_BT[order])
    tables = {tuple(change_starts(START_BT, VALID_BT, "wrong", s)[0].tolist()) for s in range(20)}
    assert len(tables) > 10


def test_every_slot_in_the_middle_of_a_sequence_is_drawn():
    valid_BT, start_BT = masks([3, 5, 4, 6])
    drawn_T = sum(change_starts(start_BT, valid_BT, "wrong", s)[0].int() for s in range(300))
    wanted_T = (valid_BT & ~start_BT)[0]
    assert torch.equal(drawn_T[1:] > 0, wanted_T[1:])
    assert drawn_T[wanted_T].max() < 3 * drawn_T[wanted_T].min()


def test_a_packed_epoch_is_cleared_as_often_with_wrong_starts():
    plan = make_plan(np.arange(3, 40), "bload_exact", t_max=60)
    blocks = [plan.block(b) for b in range(plan.blocks)]
    valid_BT, start_BT = masks(*[block.length.tolist() for block in blocks], t_max=60)
    wrong_BT = change_starts(start_BT, valid_BT, "wrong")
    assert torch.equal(wrong_BT.sum(1), start_BT.sum(1))
    assert start_BT.sum() == 37


@pytest.mark.parametrize("name", STARTS)
def test_masks_given_are_not_written_to(name):
    before = START_BT.clone()
    change_starts(START_BT, VALID_BT, name)
    assert torch.equal(START_BT, before)


def test_another_name_is_refused():
    with pytest.raises(InputError, match="starts is 'none'; choose one of table, ignored, wrong"):
        change_starts(START_BT, VALID_BT, "none")
