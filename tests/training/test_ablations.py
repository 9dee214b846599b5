"""Start tables left out or wrong, and padding filled with the last frame."""

import numpy as np
import pytest
import torch

from bload import Block, BlockDataset, InputError, collate_blocks
from tests.bload.conftest import NumberedSource
from training.ablations import change_starts, repeat_last


def block_of(t_max, *segments):
    sequence, first, length = (np.array(column) for column in zip(*segments, strict=True))
    return Block(0, t_max, sequence, first, length)


@pytest.fixture
def batch():
    """|1 1 1|3 3|.|  |0 0 0 0|. .|  |. . . . . .|  |2 2 2 2 2 2|"""
    blocks = [
        block_of(6, (1, 0, 3), (3, 0, 2)),
        block_of(6, (0, 0, 4)),
        Block(-1, 6, *[np.zeros(0, int)] * 3),
        block_of(6, (2, 3, 6)),
    ]
    dataset = BlockDataset(NumberedSource([4, 3, 9, 2]))
    return collate_blocks([dataset[block] for block in blocks])


def test_a_filled_batch_by_hand(batch):
    filled = repeat_last(batch)
    assert filled.valid_BT.int().tolist() == [[1] * 6, [1] * 6, [0] * 6, [1] * 6]
    assert filled.segment_BT[:3].tolist() == [[0, 0, 0, 1, 1, 1], [0] * 6, [-1] * 6]
    assert filled.sequence_BT[:3].tolist() == [[1, 1, 1, 3, 3, 3], [0] * 6, [-1] * 6]
    assert filled.position_BT[:3].tolist() == [[0, 1, 2, 0, 1, 2], [*range(6)], [0] * 6]
    assert filled.inputs_BT[0].tolist() == [[1, 0], [1, 1], [1, 2], [3, 0], [3, 1], [3, 1]]
    assert not filled.inputs_BT[2].any()
    assert torch.equal(filled.start_BT, batch.start_BT)
    assert [target[:2] for target in filled.targets[4:12]] == [
        *[(3, 1)] * 2,
        *[(0, 0), (0, 1), (0, 2)],
        *[(0, 3)] * 3,
    ]
    assert filled.cu_seqlens.tolist() == [0, 3, 6, 12, 18]
    assert filled.cu_seqlens.dtype == torch.int32


def masks(*blocks, t_max=20):
    """valid_BT and start_BT of blocks given as lists of segment lengths."""
    valid_BT = torch.zeros(len(blocks), t_max, dtype=torch.bool)
    start_BT = torch.zeros_like(valid_BT)
    for b, lengths in enumerate(blocks):
        valid_BT[b, : sum(lengths)] = True
        start_BT[b, [sum(lengths[:i]) for i in range(len(lengths))]] = True
    return valid_BT, start_BT


VALID_BT, START_BT = masks([3, 5, 4, 6], [20], [], [7, 3], [1, 1, 1, 2])


def test_wrong_starts_are_as_many_and_all_in_the_middle_of_a_sequence():
    for seed in range(20):
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
    valid, start = masks([3, 5, 4], [3, 4, 5])
    assert sum(torch.equal(*change_starts(start, valid, "wrong", s)) for s in range(20)) < 10


def test_repeated_padding_of_rows_that_go_on_is_refused(config):
    with pytest.raises(InputError, match=r"set train\.padding=masked"):
        config("train.padding=repeated", "loader.long=carry", "loader.t_max=20")
