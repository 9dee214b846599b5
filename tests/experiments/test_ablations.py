"""Start tables left out or wrong, and padding filled with the last frame."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bload import PACKERS, BlockDataset, BlockLoader, InputError, collate_blocks
from bload.plan import Block, filler_block
from experiments.ablations import (
    change_starts,
    check_padding,
    check_starts,
    repeat_last,
)

TENSORS = ("frames_BT", "valid_BT", "start_BT", "segment_BT", "sequence_BT", "position_BT")
TABLE = ("block_S", "slot_S", "length_S")


LENGTHS = np.random.default_rng(7).integers(1, 13, size=40)


class NumberedSource:
    """Frame p of sequence s is the pair (s, p), and so is its target."""

    def __init__(self, lengths):
        self.lengths = lengths

    def read(self, sequence, first, length):
        positions = torch.arange(first, first + length)
        frames = torch.stack([torch.full_like(positions, sequence), positions], dim=1)
        return frames, [(sequence, first + i) for i in range(length)]


class Lingering:
    """A source whose sequences stay at their last frame for ever."""

    def __init__(self, source):
        self.source = source

    def read(self, sequence, first, length):
        there = min(length, int(self.source.lengths[sequence]) - first)
        frames, targets = self.source.read(sequence, first, there)
        more = length - there
        return torch.cat([frames, frames[-1:].expand(more, -1)]), targets + targets[-1:] * more


def block_of(t_max, *segments):
    sequence, first, length = (np.array(column) for column in zip(*segments, strict=True))
    return Block(0, t_max, sequence, first, length)


def grown(block):
    """The block whose last segment reaches its end."""
    if not len(block.length):
        return block
    length = block.length.copy()
    length[-1] += block.t_max - block.frames
    return replace(block, length=length)


@pytest.fixture
def batch():
    """|1 1 1|3 3|.|  |0 0 0 0|. .|  |. . . . . .|  |2 2 2 2 2 2|"""
    blocks = [
        block_of(6, (1, 0, 3), (3, 0, 2)),
        block_of(6, (0, 0, 4)),
        filler_block(6),
        block_of(6, (2, 3, 6)),
    ]
    dataset = BlockDataset(NumberedSource([4, 3, 9, 2]))
    return collate_blocks([dataset[block] for block in blocks])


def test_a_filled_batch_by_hand(batch):
    filled = repeat_last(batch)
    assert filled.valid_BT.int().tolist() == [[1] * 6, [1] * 6, [0] * 6, [1] * 6]
    assert filled.segment_BT[:3].tolist() == [[0, 0, 0, 1, 1, 1], [0] * 6, [-1] * 6]
    assert filled.sequence_BT[:3].tolist() == [[1, 1, 1, 3, 3, 3], [0] * 6, [-1] * 6]
    assert filled.position_BT[:3].tolist() == [[0, 1, 2, 0, 1, 1], [0, 1, 2, 3, 3, 3], [-1] * 6]
    assert filled.frames_BT[0].tolist() == [[1, 0], [1, 1], [1, 2], [3, 0], [3, 1], [3, 1]]
    assert not filled.frames_BT[2].any()
    assert torch.equal(filled.start_BT, batch.start_BT)
    assert [*filled.targets[4:12]] == [
        *[(3, 1)] * 2,
        *[(0, 0), (0, 1), (0, 2)],
        *[(0, 3)] * 3,
    ]
    assert filled.cu_seqlens.tolist() == [0, 3, 6, 12, 18]
    assert filled.cu_seqlens.dtype == torch.int32


@pytest.mark.parametrize("packer", PACKERS)
def test_a_filled_batch_is_the_one_that_longer_sequences_would_have_given(packer):
    source = NumberedSource(LENGTHS)
    dataset, lingering = BlockDataset(source), BlockDataset(Lingering(source))
    loader = BlockLoader(source, packer, batch_frames=36, world_size=2)
    filled_slots = 0
    for blocks in loader.sampler:
        batch = collate_blocks([dataset[block] for block in blocks])
        filled = repeat_last(batch)
        read = collate_blocks([lingering[grown(block)] for block in blocks])
        for name in set(TENSORS) - {"position_BT"}:
            assert torch.equal(getattr(filled, name), getattr(read, name)), name
            assert getattr(filled, name).dtype == getattr(batch, name).dtype
        for name in TABLE:
            assert torch.equal(getattr(filled.table, name), getattr(read.table, name)), name
        assert filled.targets == read.targets
        numbers = torch.stack([filled.sequence_BT, filled.position_BT], dim=-1)[filled.valid_BT]
        assert torch.equal(numbers, filled.frames_BT[filled.valid_BT])
        filled_slots += int(filled.valid_BT.sum() - batch.valid_BT.sum())
    account = loader.account  # of both ranks; this is rank 0
    assert 0 <= filled_slots <= account.padding
    assert (filled_slots > 0) == (packer != "sampling")


def test_the_batch_given_is_not_written_to(batch):
    before = {name: getattr(batch, name).clone() for name in TENSORS}
    lengths_S, targets = batch.table.length_S.clone(), list(batch.targets)
    filled = repeat_last(batch)
    for name in TENSORS:
        getattr(filled, name).zero_()
    for name, tensor in before.items():
        if name != "start_BT":  # the same tensor, for starts do not change
            assert torch.equal(getattr(batch, name), tensor), name
    assert torch.equal(batch.table.length_S, lengths_S)
    assert list(batch.targets) == targets


def test_another_name_is_refused_with_the_choices():
    for check, name, choice in (
        (check_padding, "zeros", "repeated"),
        (check_starts, "never", "ignored"),
        (lambda name: change_starts(START_BT, VALID_BT, name), "none", "wrong"),
    ):
        with pytest.raises(InputError, match=rf"'{name}'.*{choice}"):
            check(name)


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


def test_every_slot_in_the_middle_of_a_sequence_is_drawn():
    valid_BT, start_BT = masks([3, 5, 4, 6])
    drawn_T = sum(change_starts(start_BT, valid_BT, "wrong", s)[0].int() for s in range(300))
    wanted_T = (valid_BT & ~start_BT)[0]
    assert torch.equal(drawn_T[1:] > 0, wanted_T[1:])
    assert drawn_T[wanted_T].max() < 3 * drawn_T[wanted_T].min()
