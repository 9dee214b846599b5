"""Padding filled with the last frame: the batch that would have been read had it been there."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bload import PACKERS, BlockDataset, BlockLoader, InputError, collate_blocks, walk
from bload.plan import Block, filler_block
from experiments.padding import check_padding, repeat_last

TENSORS = ("frames_BT", "valid_BT", "start_BT", "segment_BT", "sequence_BT", "position_BT")
TABLE = ("block_S", "slot_S", "length_S")


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
def batch(numbered_source):
    """|1 1 1|3 3|.|  |0 0 0 0|. .|  |. . . . . .|  |2 2 2 2 2 2|"""
    blocks = [
        block_of(6, (1, 0, 3), (3, 0, 2)),
        block_of(6, (0, 0, 4)),
        filler_block(6),
        block_of(6, (2, 3, 6)),
    ]
    dataset = BlockDataset(numbered_source([4, 3, 9, 2]))
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
    assert [t[:2] for t in filled.targets[4:12]] == [
        *[(3, 1)] * 2,
        *[(0, 0), (0, 1), (0, 2)],
        *[(0, 3)] * 3,
    ]
    assert filled.cu_seqlens.tolist() == [0, 3, 6, 12, 18]
    assert filled.cu_seqlens.dtype == torch.int32


@pytest.mark.parametrize("packer", PACKERS)
def test_a_filled_batch_is_the_one_that_longer_sequences_would_have_given(
    packer, numbered_source, small_lengths
):
    source = numbered_source(small_lengths)
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


def test_nothing_but_the_last_sequence_hears_of_the_repetition(batch):
    """A sum over the past: what is filled adds to its own sequence, at its end alone."""

    class Sum(torch.nn.Module):
        def init_state(self, inputs):
            return inputs.new_zeros(inputs.shape[0], 2)

        def step(self, inputs, state):
            return state + inputs, state + inputs

    filled = repeat_last(batch)
    plain_BT, _ = walk(Sum(), batch.frames_BT.double(), batch.start_BT)
    filled_BT, _ = walk(Sum(), filled.frames_BT.double(), filled.start_BT)
    assert torch.equal(filled_BT[batch.valid_BT], plain_BT[batch.valid_BT])
    assert filled_BT[0, 5].tolist() == [9.0, 2.0]


def test_a_batch_without_padding_stays_as_it_is(batch):
    once = repeat_last(batch)
    twice = repeat_last(once)
    for name in TENSORS:
        assert torch.equal(getattr(twice, name), getattr(once, name)), name
    assert twice.targets == once.targets


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


def test_another_name_is_refused():
    with pytest.raises(InputError, match="padding is 'zeros'; choose one of masked, repeated"):
        check_padding("zeros")
