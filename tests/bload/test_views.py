"""The forms of a batch's layout, and the ways between them, there and back."""

import numpy as np
import pytest
import torch

from bload import make_plan
from bload.views import (
    StartTable,
    cu_seqlens_from_table,
    masks_from_table,
    pack_valid,
    segments_from_masks,
    table_from_masks,
    unpack_valid,
)


def random_table(seed: int) -> tuple[StartTable, int, int]:
    """The start table of a plan's first blocks, with an empty block now and then."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, 25)
    plan = make_plan(lengths, "bload", 10, seed=seed)
    entries = [
        (row, slot, length)
        for row, b in enumerate(rng.permutation(plan.blocks + 2)[:6])
        if b < plan.blocks
        for slot, length in zip(plan.block(b).starts, plan.block(b).length, strict=True)
    ]
    columns = torch.tensor(np.array(entries)).unbind(1)
    return StartTable(*columns), 6, 10


def assert_same(one: StartTable, two: StartTable):
    assert torch.equal(one.block_S, two.block_S)
    assert torch.equal(one.slot_S, two.slot_S)
    assert torch.equal(one.length_S, two.length_S)


@pytest.mark.parametrize("seed", range(8))
def test_table_to_masks_and_back(seed):
    table, blocks, t_max = random_table(seed)
    valid_BT, start_BT, segment_BT = masks_from_table(table, blocks, t_max)
    assert_same(table_from_masks(valid_BT, start_BT), table)
    assert torch.equal(segments_from_masks(valid_BT, start_BT), segment_BT)
    # literally, slot by slot
    expected = torch.full((blocks, t_max), -1)
    number = [0] * blocks
    for b, slot, length in zip(
        *map(torch.Tensor.tolist, (table.block_S, table.slot_S, table.length_S)), strict=True
    ):
        expected[b, slot : slot + length] = number[b]
        number[b] += 1
    assert torch.equal(segment_BT, expected)
    assert torch.equal(valid_BT, expected >= 0)
    before = torch.cat([torch.full((blocks, 1), -1), expected[:, :-1]], dim=1)
    assert torch.equal(start_BT, (expected >= 0) & (expected != before))


@pytest.mark.parametrize("seed", range(8))
def test_cu_seqlens_cut_the_valid_frames_into_segments(seed):
    table, blocks, t_max = random_table(seed)
    valid_BT, _, segment_BT = masks_from_table(table, blocks, t_max)
    cu_seqlens = cu_seqlens_from_table(table)
    names_BT = segment_BT + 100 * torch.arange(blocks)[:, None]
    runs = pack_valid(names_BT, valid_BT).tensor_split(cu_seqlens[1:-1].long())
    assert len(runs) == len(table)
    assert all(len(set(run.tolist())) == 1 for run in runs)
    assert len({run[0].item() for run in runs}) == len(table)
    assert torch.equal(cu_seqlens.diff().long(), table.length_S)
    assert cu_seqlens.dtype == torch.int32


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_pack_and_unpack_undo_each_other(shape):
    table, blocks, t_max = random_table(3)
    valid_BT, *_ = masks_from_table(table, blocks, t_max)
    values_BT = torch.randn(blocks, t_max, *shape)
    packed_V = pack_valid(values_BT, valid_BT)
    assert len(packed_V) == table.length_S.sum()
    back_BT = unpack_valid(packed_V, valid_BT)
    assert torch.equal(back_BT[valid_BT], values_BT[valid_BT])
    assert not back_BT[~valid_BT].any()
    assert torch.equal(pack_valid(back_BT, valid_BT), packed_V)


def test_gradients_go_through_pack_and_unpack():
    valid_BT = torch.tensor([[True, True, False], [True, False, False]])
    values_BT = torch.randn(2, 3, requires_grad=True)
    unpack_valid(pack_valid(values_BT, valid_BT) * 2, valid_BT).sum().backward()
    assert torch.equal(values_BT.grad, 2.0 * valid_BT)


def test_an_empty_batch_has_an_empty_table():
    nothing = torch.zeros(0, dtype=torch.int64)
    table = StartTable(nothing, nothing, nothing)
    valid_BT, start_BT, segment_BT = masks_from_table(table, 2, 3)
    assert not valid_BT.any()
    assert not start_BT.any()
    assert (segment_BT == -1).all()
    assert_same(table_from_masks(valid_BT, start_BT), table)
    assert cu_seqlens_from_table(table).tolist() == [0]
