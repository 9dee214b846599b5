"""Batches: reading blocks, masks, positions, padding, and the views of a batch's layout."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bload import BlockDataset, BlockLoader, collate_blocks, make_plan
from bload.batch.boundaries import Segments
from bload.packing.plan import Block, filler_block


@pytest.fixture
def batch(numbered_source):
    """Two blocks and a filler: |1 1 1|3 3|.|  |2 2 2 2|. .|  |. . . . . .|"""
    blocks = [
        Block(0, 6, np.array([1, 3]), np.array([0, 0]), np.array([3, 2])),
        Block(1, 6, np.array([2]), np.array([4]), np.array([4])),
        filler_block(6),
    ]
    dataset = BlockDataset(numbered_source([4, 3, 9, 2]))
    return collate_blocks([dataset[block] for block in blocks])


def columns(table: Segments) -> list[list[int]]:
    return [column.tolist() for column in (table.block_S, table.slot_S, table.length_S)]


def source_of(frame):
    """Two sequences of the frame given, and a list of the calls to read."""
    calls = []

    def read(*call):
        calls.append(call)
        sequence, _, length = call
        return frame.repeat(length, *(1,) * frame.dim()), [sequence] * length

    return SimpleNamespace(lengths=[4, 3], read=read, calls=calls)


def test_a_batch_by_hand(batch):
    assert batch.valid_BT.int().tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0], [0] * 6]
    assert batch.start_BT.int().tolist() == [[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0] * 6]
    assert batch.segment_BT.tolist() == [[0, 0, 0, 1, 1, -1], [0, 0, 0, 0, -1, -1], [-1] * 6]
    assert batch.sequence_BT.tolist() == [[1, 1, 1, 3, 3, -1], [2, 2, 2, 2, -1, -1], [-1] * 6]
    assert batch.position_BT.tolist() == [[0, 1, 2, 0, 1, 0], [4, 5, 6, 7, 0, 0], [0] * 6]
    assert batch.cu_seqlens.tolist() == [0, 3, 5, 9]
    assert batch.cu_seqlens.dtype == torch.int32
    assert columns(batch.segments) == [[0, 0, 1], [0, 3, 0], [3, 2, 4]]
    assert not batch.inputs_BT[~batch.valid_BT].any()
    assert repr(batch) == "Batch(3 x 6 slots, 3 segments)"  # and none of its numbers


def test_moving_a_batch_moves_every_tensor(batch):
    moved = batch.to("meta")
    parts = [getattr(one, field.name) for one in (moved, moved.segments) for field in fields(one)]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 9
    assert moved.targets is batch.targets
    with pytest.raises(TypeError, match="dtype"):
        batch.to(torch.bfloat16)
    assert batch.inputs_BT.device.type == "cpu"
    assert torch.equal(batch.to("cpu", non_blocking=True).inputs_BT, batch.inputs_BT)


@pytest.mark.gpu
def test_pinned_batches_are_page_locked(batch, numbered_source):
    on_device = batch.pin_memory().to("cuda", non_blocking=True)
    assert torch.equal(on_device.inputs_BT.cpu(), batch.inputs_BT)
    settings = {"batch_slots": 4, "pin_memory": True}
    for workers in (0, 1):
        for pinned in BlockLoader(numbered_source([3, 4, 2]), num_workers=workers, **settings):
            assert pinned.inputs_BT.is_pinned()
            assert pinned.segments.length_S.is_pinned()


def test_a_source_is_asked_for_whole_segments_in_plain_numbers_and_once_for_fillers():
    source = source_of(torch.zeros(2, dtype=torch.uint8))
    block = make_plan([4, 3], "bload", 7).block(0)
    dataset = BlockDataset(source)
    sample = dataset[block]
    assert sorted(source.calls) == [(0, 0, 1), (0, 0, 4), (1, 0, 3)]
    assert all(type(number) is int for call in source.calls for number in call)
    assert sorted(len(frames) for frames in sample.inputs) == [3, 4]
    for _ in range(3):
        sample = dataset[filler_block(5)]
        assert (*sample.inputs, *sample.targets) == ()
        assert (sample.template[0].shape, sample.template[0].dtype) == ((0, 2), torch.uint8)
    assert source.calls[0] == (0, 0, 1)
    assert len(source.calls) == 3
