"""Segments that take a multiple of slots: plans, masks, and what is refused."""

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from bload import PACKERS, BlockLoader, InputError, from_dataset, make_plan
from bload.packing.bounds import lower_bound

LENGTHS = np.random.default_rng(0).integers(1, 90, 200)


@pytest.mark.parametrize("packer", PACKERS)
def test_every_segment_takes_a_multiple_of_slots_and_keeps_its_frames(packer):
    plan = make_plan(LENGTHS, packer, multiple_of=8)
    assert plan.t_max % 8 == 0
    assert not (plan.slots % 8).any()
    assert plan.placed == plan.length.sum() == LENGTHS.sum() - plan.deleted
    if not plan.deleted:
        assert sorted(plan.length.tolist()) == sorted(LENGTHS.tolist())
    for block in map(plan.block, range(plan.num_blocks)):
        ends = block.starts + block.length
        assert not (block.starts % 8).any()
        assert (ends[:-1] <= block.starts[1:]).all()
        assert (block.starts[1:] - ends[:-1] < 8).all()
        assert ends.max() <= block.t_max


def test_clips_are_rounded_down_so_that_the_longest_sequence_has_one():
    assert make_plan([7, 7], "sampling", multiple_of=4).deleted == 2 * 3


def test_bload_exact_keeps_its_bound_in_rounded_lengths():
    plan = make_plan(LENGTHS, "bload_exact", multiple_of=8)
    rounded = -(-LENGTHS // 8) * 8
    assert plan.num_blocks == plan.lower_bound == lower_bound(rounded, 96) >= rounded.sum() / 96
    assert plan.lower_bound_padding == plan.padding == plan.num_blocks * plan.t_max - LENGTHS.sum()


@pytest.mark.parametrize("multiple", [1, 12, 100])
@pytest.mark.parametrize("causal", [True, False])
def test_the_block_mask_is_the_attention_mask_slot_by_slot(multiple, causal):
    lengths = np.random.default_rng(multiple).integers(1, 500, 12)
    source = from_dataset([torch.zeros(n, 1) for n in lengths], lengths)
    slots, full_tiles = -(-600 // multiple) * multiple, 0
    for batch in BlockLoader(source, t_max=slots, batch_slots=2 * slots, multiple_of=multiple):
        mask = batch.block_mask(causal)
        listed = [
            (mask.kv_num_blocks, mask.kv_indices),
            (mask.full_kv_num_blocks, mask.full_kv_indices),
        ]
        row, column = torch.arange(slots)[:, None], torch.arange(slots)
        blocks = torch.arange(len(batch.valid_BT))[:, None, None]
        rule = mask.mask_mod(blocks, torch.zeros(()), row, column)
        partly, fully = (in_slots(counts[:, 0], numbers[:, 0], slots) for counts, numbers in listed)
        sees = batch.attention_mask(causal)[:, 0]
        assert torch.equal(rule & partly | fully, sees)
        if multiple == 1:  # no tile is computed in vain
            rest = -slots % 128
            tiles = pad(sees, (0, rest, 0, rest)).unfold(1, 128, 128).unfold(2, 128, 128)
            for found, wanted in ((fully, tiles.all((3, 4))), (partly | fully, tiles.any((3, 4)))):
                assert torch.equal(found[:, ::128, ::128], wanted)
            full_tiles += int(tiles.all((3, 4)).sum())
    assert full_tiles or multiple > 1


def in_slots(counts_BK, numbers_BKK, slots):
    """True for the slots of the listed tiles, ``(B, slots, slots)``."""
    used_BKK = torch.arange(numbers_BKK.shape[2]) < counts_BK[..., None]
    tiles_BKK = torch.zeros_like(used_BKK).scatter(2, numbers_BKK.long(), used_BKK)
    return tiles_BKK.repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :slots, :slots]


def test_what_does_not_align_is_refused():
    for message, options in {
        "t_max is 100; give multiples of 8": {"t_max": 100},
        "multiple_of=8 does not go with long=carry; leave one out": {"t_max": 96, "long": "carry"},
        "t_max is 48; raise it to 96, the longest, or set long=truncate$": {"t_max": 48},
    }.items():
        with pytest.raises(InputError, match=message):
            make_plan(LENGTHS, "bload", **{"multiple_of": 8, **options})


def test_block_sizes_that_are_chosen_are_aligned():
    source = from_dataset([torch.zeros(n, 1) for n in LENGTHS], LENGTHS)
    loader = BlockLoader(source, multiple_of=8, block_sizes=2, batch_slots=400)
    sizes = loader.sampler.planner.block_sizes
    assert [size % 8 for size in sizes] == [0, 0]
    assert {batch.valid_BT.shape[1] for batch in loader} == {*sizes}
    with pytest.raises(InputError, match="block_sizes has 50; give multiples of 8"):
        BlockLoader(source, multiple_of=8, block_sizes=[50, 96])
