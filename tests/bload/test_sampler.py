"""The sampler alone: epochs, positions and refusals."""

import json
from itertools import chain

import numpy as np
import pytest

from bload import PACKERS, BlockSampler, InputError, make_plan

LENGTHS = np.random.default_rng(1).integers(1, 13, 40)


def steps_of(sampler) -> list[list[tuple]]:
    return [
        [(block.index, tuple(block.sequence), tuple(block.first)) for block in blocks]
        for blocks in sampler
    ]


@pytest.mark.parametrize("last", ["fill", "drop"])
@pytest.mark.parametrize("packer", PACKERS)
def test_ranks_take_equal_steps_and_share_the_plan(packer, last):
    for ranks in range(1, 10):
        samplers = [
            BlockSampler(LENGTHS, packer, batch_frames=13, rank=r, world_size=ranks, last=last)
            for r in range(ranks)
            if last == "fill" or ranks <= 2
        ]
        for epoch in (0, 3):
            dealt = []
            for sampler in samplers:
                sampler.set_epoch(epoch)
                dealt.append(steps_of(sampler))
                assert len(dealt[-1]) == len(sampler)
            if not dealt:
                continue
            assert len(set(map(len, dealt))) == 1
            trained = [block[0] for steps in dealt for step in steps for block in step]
            plan = make_plan(LENGTHS, packer, epoch=epoch)
            count = samplers[0].account
            assert sorted(b for b in trained if b >= 0) == list(range(count.blocks))
            assert count.blocks == plan.blocks or last == "drop"


def test_batch_frames_give_the_blocks_of_a_batch():
    for batch_frames, blocks in [(12, 1), (23, 1), (24, 2), (100, 8)]:
        sampler = BlockSampler(LENGTHS, batch_frames=batch_frames, t_max=12)
        assert sampler.blocks_per_rank == blocks
        assert {len(step) for step in sampler} == {blocks}


def test_the_same_work_a_step_is_the_same_step_on_any_number_of_ranks():
    def global_steps(ranks):
        parts = [
            steps_of(
                BlockSampler(LENGTHS, batch_frames=12 * (6 // ranks), rank=r, world_size=ranks)
            )
            for r in range(ranks)
        ]
        return [sorted(chain.from_iterable(step)) for step in zip(*parts, strict=True)]

    one = global_steps(1)
    assert len(one) > 2
    assert all(global_steps(ranks) == one for ranks in (2, 3, 6))


def test_set_epoch_draws_another_plan_and_back_the_same():
    sampler = BlockSampler(LENGTHS, batch_frames=24)
    first = steps_of(sampler)
    sampler.set_epoch(1)
    assert sampler.epoch == 1
    assert steps_of(sampler) != first
    sampler.set_epoch(0)
    assert steps_of(sampler) == first


def test_a_second_iteration_of_an_epoch_is_the_whole_epoch():
    sampler = BlockSampler(LENGTHS, batch_frames=24)
    whole = steps_of(sampler)
    assert steps_of(sampler) == whole
    sampler.load_state_dict(sampler.state_dict(3))
    assert steps_of(sampler) == whole[3:]
    assert steps_of(sampler) == whole


def test_the_sampler_counts_what_it_yielded():
    sampler = BlockSampler(LENGTHS, batch_frames=24)
    whole = steps_of(sampler)
    for step, _ in enumerate(sampler, start=1):
        state = sampler.state_dict()
        assert (state["epoch"], state["step"]) == (0, step)
        resumed = BlockSampler(LENGTHS, batch_frames=24)
        resumed.load_state_dict(state)
        assert steps_of(resumed) == whole[step:]


def test_a_loaded_position_survives_set_epoch_of_its_epoch_alone():
    state = BlockSampler(LENGTHS, batch_frames=24).state_dict(2) | {"epoch": 5}
    sampler = BlockSampler(LENGTHS, batch_frames=24)
    sampler.load_state_dict(state)
    assert sampler.epoch == 5
    sampler.set_epoch(5)
    steps = len(sampler)
    assert len(steps_of(sampler)) == steps - 2
    sampler.load_state_dict(state)
    sampler.set_epoch(6)
    assert len(steps_of(sampler)) == len(sampler)


@pytest.mark.parametrize("packer", PACKERS)
def test_state_survives_json(packer):
    t_max = np.int64(8) if packer in ("mix", "sampling") else np.max(LENGTHS)
    settings = {"batch_frames": 24, "t_max": t_max, "seed": np.int64(3)}
    sampler = BlockSampler(LENGTHS, packer, **settings)
    whole = steps_of(sampler)
    text = json.dumps(sampler.state_dict(2))
    resumed = BlockSampler(LENGTHS.tolist(), packer, **settings)
    resumed.load_state_dict(json.loads(text))
    assert steps_of(resumed) == whole[2:]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"packer": "bload_exact"}, "packer was bload and is bload_exact"),
        ({"t_max": 13}, "t_max was 12 and is 13"),
        ({"draw": "length"}, r"options was .*'draw': 'video'.* and is .*'draw': 'length'"),
        ({"last": "drop"}, "last was fill and is drop"),
        ({"batch_frames": 36}, "blocks per step was 2 and is 3"),
        ({"world_size": 2}, "blocks per step was 2 and is 4"),
        ({"lengths": LENGTHS[:-1]}, "sequences was 40 and is 39"),
        ({"lengths": LENGTHS[::-1]}, "lengths digest was"),
        ({"seed": 1, "last": "drop"}, "seed was 0 and is 1; last was fill and is drop"),
    ],
)
def test_the_position_of_another_plan_is_refused_by_what_differs(changes, sentence):
    settings = {"lengths": LENGTHS, "packer": "bload", "batch_frames": 26, "t_max": 12}
    state = BlockSampler(**settings).state_dict(1)
    other = BlockSampler(**(settings | changes))
    with pytest.raises(InputError, match=sentence) as refusal:
        other.load_state_dict(state)
    assert "restore these settings or start anew" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert (other.epoch, other.next_step) == (0, 0)


def test_ranks_may_change_when_the_work_of_a_step_does_not():
    state = BlockSampler(LENGTHS, batch_frames=48).state_dict(2)
    left = [BlockSampler(LENGTHS, batch_frames=24, rank=r, world_size=2) for r in range(2)]
    for sampler in left:
        sampler.load_state_dict(json.loads(json.dumps(state)))
    whole = steps_of(BlockSampler(LENGTHS, batch_frames=48))
    both = zip(*map(steps_of, left), strict=True)
    assert [sorted(a + b) for a, b in both] == [sorted(step) for step in whole[2:]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_frames": 11}, "batch_frames is 11 but one block has t_max = 12 frames; raise"),
        ({"rank": 2, "world_size": 2}, "rank 2 of 2 ranks"),
        ({"rank": -1}, "rank -1 of 1 ranks"),
        ({"last": "repeat"}, "last is 'repeat'; choose fill or drop"),
        (
            {"last": "drop", "batch_frames": 1200},
            "one step of all ranks takes 100; lower batch_frames",
        ),
        ({"lengths": []}, "give a list with at least one sequence"),
        ({"length": 3}, "loader bload has no option 'length'"),
    ],
)
def test_wrong_settings_are_refused_at_once(changes, sentence):
    settings = {"lengths": [12, 5, 4], "batch_frames": 12} | changes
    with pytest.raises(InputError, match=sentence):
        BlockSampler(**settings)
