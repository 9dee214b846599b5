"""Batches: masks, targets, positions, padding and fillers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bload import BlockDataset, BlockLoader, BlockSample, collate_blocks, make_plan
from bload.plan import filler_block
from bload.views import pack_valid


@pytest.fixture
def batch(numbered_source):
    """Two blocks and a filler: |1 1 1|3 3|.|  |0 0 0 0|. .|  |. . . . . .|"""
    lengths = [4, 3, 9, 2]
    plan = make_plan(lengths, "naive", 9)
    blocks = [
        _block(plan, 6, sequence=[1, 3], first=[0, 0], length=[3, 2]),
        _block(plan, 6, sequence=[2], first=[4], length=[4]),
        filler_block(6),
    ]
    dataset = BlockDataset(numbered_source(lengths))
    return collate_blocks([dataset[block] for block in blocks])


def _block(plan, t_max, **arrays):
    return type(plan.block(0))(0, t_max, **{k: np.array(v) for k, v in arrays.items()})


def test_a_batch_by_hand(batch):
    assert batch.valid_BT.int().tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0], [0] * 6]
    assert batch.start_BT.int().tolist() == [[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0] * 6]
    assert batch.segment_BT.tolist() == [[0, 0, 0, 1, 1, -1], [0, 0, 0, 0, -1, -1], [-1] * 6]
    assert batch.sequence_BT.tolist() == [[1, 1, 1, 3, 3, -1], [2, 2, 2, 2, -1, -1], [-1] * 6]
    assert batch.position_BT.tolist() == [[0, 1, 2, 0, 1, -1], [4, 5, 6, 7, -1, -1], [-1] * 6]
    assert batch.cu_seqlens.tolist() == [0, 3, 5, 9]
    assert batch.cu_seqlens.dtype == torch.int32
    assert batch.table.block_S.tolist() == [0, 0, 1]
    assert batch.table.slot_S.tolist() == [0, 3, 0]
    assert batch.table.length_S.tolist() == [3, 2, 4]
    assert batch.valid_BT.dtype == batch.start_BT.dtype == torch.bool
    assert {m.dtype for m in (batch.segment_BT, batch.sequence_BT, batch.position_BT)} == {
        torch.int64
    }


def test_padding_is_zero_and_fillers_are_all_false(batch):
    assert not batch.frames_BT[~batch.valid_BT].any()
    assert not batch.valid_BT[2].any()
    assert not batch.start_BT[2].any()


@pytest.mark.parametrize("packer", ["naive", "sampling", "mix", "bload", "bload_exact"])
def test_frames_targets_and_numbers_line_up(packer, numbered_source, small_lengths):
    for batch in BlockLoader(numbered_source(small_lengths), packer, batch_frames=36, world_size=2):
        numbers = torch.stack([batch.sequence_BT, batch.position_BT], dim=-1)
        assert torch.equal(
            pack_valid(batch.frames_BT, batch.valid_BT), pack_valid(numbers, batch.valid_BT)
        )
        assert [list(t[:2]) for t in batch.targets] == pack_valid(numbers, batch.valid_BT).tolist()
        assert not batch.frames_BT[~batch.valid_BT].any()
        assert (numbers[~batch.valid_BT] == -1).all()
        assert not batch.start_BT[~batch.valid_BT].any()
        assert len(batch.targets) == batch.valid_BT.sum() == batch.cu_seqlens[-1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64, torch.bool])
@pytest.mark.parametrize("shape", [(), (3, 4, 5)])
def test_dtype_and_shape_of_frames_are_kept(dtype, shape):
    source = SimpleNamespace(
        lengths=[2, 5, 3],
        read=lambda s, first, n: (torch.ones(n, *shape, dtype=dtype), [None] * n),
    )
    for batch in BlockLoader(source, batch_frames=15):
        assert batch.frames_BT.dtype == dtype
        assert batch.frames_BT.shape == (3, 5, *shape)


def test_a_batch_of_fillers_alone_keeps_shape_and_dtype():
    source = SimpleNamespace(
        lengths=[2], read=lambda s, first, n: (torch.ones(n, 3, dtype=torch.uint8), [s] * n)
    )
    (batch,) = BlockLoader(source, batch_frames=4, rank=1, world_size=2)
    assert batch.frames_BT.shape == (2, 2, 3)
    assert batch.frames_BT.dtype == torch.uint8
    assert not batch.frames_BT.any()
    assert batch.targets == ()
    assert len(batch.table) == 0
    assert batch.cu_seqlens.tolist() == [0]


@pytest.mark.parametrize(
    "other",
    [torch.zeros(2, 1, dtype=torch.uint8), torch.zeros(2, 3), torch.zeros(2, dtype=torch.uint8)],
)
def test_frames_of_different_kinds_are_refused(other):
    plan = make_plan([2, 2], "naive")
    frames = torch.zeros(2, 3, dtype=torch.uint8)
    samples = [BlockSample(plan.block(b), f, [0, 0]) for b, f in enumerate((frames, other))]
    with pytest.raises(ValueError, match="frames of one batch differ"):
        collate_blocks(samples)


def test_moving_a_batch_moves_every_tensor(batch):
    moved = batch.to("meta")
    names = ("frames_BT", "valid_BT", "start_BT", "segment_BT", "sequence_BT", "position_BT")
    tensors = [getattr(moved, name) for name in names]
    tensors += [moved.table.block_S, moved.table.slot_S, moved.table.length_S, moved.cu_seqlens]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.targets is batch.targets
    assert batch.frames_BT.device.type == "cpu"
    same = batch.to("cpu", non_blocking=True)
    assert torch.equal(same.frames_BT, batch.frames_BT)


@pytest.mark.gpu
def test_pinned_batches_are_page_locked(batch, numbered_source):
    pinned = batch.pin_memory()
    assert pinned.frames_BT.is_pinned()
    assert pinned.table.slot_S.is_pinned()
    on_device = pinned.to("cuda", non_blocking=True)
    assert torch.equal(on_device.frames_BT.cpu(), batch.frames_BT)
    for workers in (0, 1):
        loader = BlockLoader(
            numbered_source([3, 4, 2]), batch_frames=4, workers=workers, pin_memory=True
        )
        assert all(b.valid_BT.is_pinned() and b.table.length_S.is_pinned() for b in loader)


def test_a_batch_shares_no_memory_with_the_plan(numbered_source):
    loader = BlockLoader(numbered_source([3, 4, 2]), batch_frames=4)
    for batch in loader:
        for tensor in (batch.table.length_S, batch.table.slot_S, batch.sequence_BT):
            tensor.zero_()
    assert loader.plan.length.sum() == 9
    assert set(loader.plan.sequence) == {0, 1, 2}
