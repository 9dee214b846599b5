"""The sampler alone: sizes, positions and refusals."""

import json
import time
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from bload import BlockDataset, BlockSampler, InputError, collate_blocks, from_dataset

LENGTHS = np.random.default_rng(1).integers(1, 13, 40)


def test_the_position_of_another_plan_is_refused_by_what_differs():
    names = [f"{number}.npy" for number in range(40)]
    settings = {"lengths": LENGTHS, "packer": "bload", "batch_slots": 26, "t_max": 12}
    settings["names"] = names
    state = BlockSampler(**settings).state_dict(1)
    for changes, words in [
        ({"t_max": 13}, "t_max was 12 and is 13"),
        ({"draw": "length"}, r"options was \{\} and is \{'draw': 'length'\}"),
        ({"seed": 1, "last": "drop"}, "seed was 0 and is 1; last was 'fill' and is 'drop'"),
        ({"rank": 0, "world_size": 2}, "blocks per step was 2 and is 4"),
        ({"lengths": LENGTHS[:-1], "names": names[:-1]}, "sequences was 40 and is 39"),
        ({"lengths": LENGTHS[::-1]}, "lengths digest was"),
        ({"names": names[::-1]}, "names digest was"),
        ({"balance": "pairs"}, "balance was None and is 'pairs'"),
        ({"block_sizes": [6, 12]}, r"block_sizes was None and is \[6, 12\]"),
    ]:
        other = BlockSampler(**(settings | changes))
        with pytest.raises(InputError, match=words) as refusal:
            other.load_state_dict(state)
        assert "\n" not in str(refusal.value)
        assert (other.epoch, other.step) == (0, 0)
    BlockSampler(**(settings | {"names": np.array(names)})).load_state_dict(state)


def test_a_deal_that_depends_on_the_ranks_keeps_their_number():
    settings = {"lengths": LENGTHS, "t_max": 12}
    for packer, balance, words in (
        ("bload", "queue", "ranks was 1 and is 2"),
        ("single", "none", "batches per step was 1 and is 2"),
    ):
        one = BlockSampler(packer=packer, balance=balance, batch_slots=24, **settings)
        two = BlockSampler(packer=packer, balance=balance, rank=0, world_size=2, **settings)
        with pytest.raises(InputError, match=words):
            two.load_state_dict(one.state_dict(1))


def test_settings_in_numpys_numbers_make_a_position_of_plain_values():
    one, same = np.int64(1), {"batch_slots": 26, "micro_batches": 2, "seed": 3}
    settings = {"lengths": LENGTHS, "packer": "ragged", "balance": "queue"}
    numbers = {key: value * one for key, value in (same | {"t_max": 12}).items()}
    sampler = BlockSampler(**settings, **numbers, rank=0 * one, world_size=one)
    sampler.set_epoch(2 * one)
    state = sampler.state_dict(1)
    assert json.loads(json.dumps(state)) == state
    BlockSampler(**settings, **same).load_state_dict(state)


def test_what_is_no_position_is_refused():
    sampler = BlockSampler(lengths=LENGTHS, packer="bload", batch_slots=26)
    state = sampler.state_dict(1)
    earlier = {key: value for key, value in state.items() if key != "chunk"}
    wrong = [{"plan": "text"}, {"epoch": 0.5}, {"step": 999}, {"first_step": 2}, {"step": 2}]
    wrong += [{"plan": state["plan"] | {"blocks per step": size}} for size in (-2, 0, 4)]
    for broken in ("text", {}, earlier, *(state | change for change in wrong)):
        with pytest.raises(InputError, match="no state_dict"):
            sampler.load_state_dict(broken)
    for each in (sampler, BlockSampler(LENGTHS, chunk=2)):  # there, the last chunk tells
        with pytest.raises(InputError, match="position is step 999 of epoch 0, which has"):
            each.load_state_dict(each.state_dict(999)) or [*each]


def test_wrong_settings_are_refused_at_once():
    names = np.array(["a", "b", "c"])
    for changes, words in [
        ({"batch_slots": 26.0}, "batch_slots is 26.0; give a whole number"),
        ({"last": "drop", "batch_slots": 1200}, "takes 100; lower batch_slots"),
        ({"t_max": 10**7}, "t_max is 10000000; give a whole number from 1 to 131072"),
        ({"lengths": [12, 0, 4], "names": names}, "sequence b has length 0"),
        ({"lengths": np.ma.array([12, 5], mask=[0, 1])}, "sequence 1 has length 0"),
        ({"lengths": [[1, 2], [3]]}, "give a list of whole numbers"),
        ({"lengths": [torch.ones((), requires_grad=True)]}, "give a list of whole numbers"),
        ({"lengths": [torch.ones((), dtype=torch.bfloat16)]}, "give a list of whole numbers"),
        ({"cost": [1, 0.1]}, "give a bload.Cost"),
        ({"lengths": np.ones(2**20, int), "names": range(2**20 + 1)}, "1048577 names for 1048576"),
        ({"t_max": 11, "names": names}, "sequence a has 12 frames .* t_max is 11"),
    ]:
        with pytest.raises(InputError, match=words):
            BlockSampler(**({"lengths": [12, 5, 4], "batch_slots": 12} | changes))


def test_a_loaded_position_is_never_lost_in_silence():
    settings = {"lengths": LENGTHS, "batch_slots": 26, "t_max": 12}
    sampler, other = BlockSampler(**settings), BlockSampler(**settings)
    other.set_epoch(3)
    state, steps = other.state_dict(2), other.steps
    for epoch in (0, 2, 4):
        sampler.load_state_dict(state)
        with pytest.raises(InputError, match=r"step 2 of epoch 3; .*range\(loader.epoch"):
            sampler.set_epoch(epoch)
        assert (sampler.epoch, sampler.step) == (3, 2)
    sampler.sampler.set_epoch(3)  # as Lightning and Accelerate do
    assert len(list(sampler)) == steps - 2
    sampler.set_epoch(0)  # what was loaded is trained
    sampler.load_state_dict(other.state_dict(steps))
    sampler.set_epoch(4)  # after a finished epoch
    assert (sampler.epoch, sampler.step) == (4, 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_that_are_sharded_again_are_refused(workers):
    def sequences(shard, shards):
        sampler = BlockSampler(LENGTHS, rank=0, world_size=2)
        batches = islice(sampler, shard, None, shards)  # as Accelerate's `BatchSamplerShard`
        dataset = BlockDataset(from_dataset([torch.zeros(n) for n in LENGTHS], LENGTHS))
        options = {"batch_sampler": batches, "collate_fn": collate_blocks, "num_workers": workers}
        return [s for b in DataLoader(dataset, **options) for s in b.segments.sequence_S.tolist()]

    assert 10 < len(sequences(0, 1)) == len({*sequences(3, 1)} | {*sequences(0, 1)}) < 30
    for shard in (0, 1):
        with pytest.raises(InputError, match=r"shards its batches again.*in_order=False"):
            sequences(shard, 2)
    dataset, first, second = BlockDataset(from_dataset([torch.zeros(9)] * 9, [9] * 9)), [], []
    for batches in (first, second):
        batches += BlockSampler([9] * 9)
    for batch in (*first[:3], second[0], first[3]):
        dataset.__getitems__(batch)  # another sampler's in between is no second sharding
    with pytest.raises(InputError, match="do not let a trainer prepare its DataLoader"):
        getattr(BlockSampler([3]), "drop_last", False)  # as Accelerate asks
    with pytest.raises(TypeError, match="set use_distributed_sampler=False"):
        len(BlockDataset(from_dataset([torch.zeros(3)], [3])))  # as Lightning's sampler asks


def test_a_slow_worker_may_read_fewer_batches():
    def read(sequence, first, length):
        time.sleep(0.01 if get_worker_info().id else 0.1)
        return torch.zeros(length)

    dataset = BlockDataset(SimpleNamespace(lengths=[9] * 40, read=read))
    options = {"batch_sampler": BlockSampler([9] * 40), "collate_fn": collate_blocks}
    assert len([*DataLoader(dataset, num_workers=2, in_order=False, **options)]) == 40
