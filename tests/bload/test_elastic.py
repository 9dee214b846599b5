"""Positions that go on with another number of blocks per step, such as that of other ranks."""

import json
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from bload import BlockLoader, BlockSampler, InputError, from_dataset
from tests.several_ranks import SeveralRanks

LENGTHS = np.random.default_rng(0).integers(1, 13, 300)
SEEDS = {"packer": "bload", "t_max": 12, "seed": 4}


def samplers(ranks, **options):
    settings = SEEDS | {"elastic": True} | options
    return [BlockSampler(LENGTHS, rank=r, world_size=ranks, **settings) for r in range(ranks)]


def train(ranks, state, steps, **options):
    """Go on with a state by some steps; blocks of each step over all ranks, and the next state."""
    everyone, by_step = samplers(ranks, **options), {}
    for sampler in everyone:
        if state is not None:
            sampler.load_state_dict(json.loads(json.dumps(state)))
        first, end = sampler.step, min(sampler.steps, sampler.step + steps)
        step = first
        for blocks in sampler.batches() if first < end else ():
            by_step.setdefault(step, []).extend(blocks)
            step += blocks.step.ends
            if step == end:
                break
        assert first == end or step == end
    return list(by_step.values()), everyone[0].state_dict(end)


@pytest.mark.parametrize("chain", [(8, 7), (8, 6), (8, 64), (7, 8), (8, 3, 5, 8, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"packer": "bload_exact", "long": "split", "t_max": 8},
        {"packer": "mix", "micro_batches": 2},
        {"balance": "pairs", "batch_slots": 24},
        {"balance": "counts", "even": False, "batch_slots": 24},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "bload",
)
def test_every_frame_is_trained_once_over_all_parts(chain, options, recwarn):
    state, parts = None, []
    for ranks in chain[:-1]:
        steps, state = train(ranks, state, 2, **options)
        parts += steps
    (last, *_) = samplers(chain[-1], **options)
    last.load_state_dict(state)
    assert last.step == len(parts)
    steps, state = train(chain[-1], state, 10**6, **options)
    parts += steps
    frames = Counter(
        (sequence, first + i)
        for step in parts
        for block in step
        for sequence, first, length in zip(block.sequence, block.first, block.length, strict=True)
        for i in range(length)
    )
    account = last.account
    assert {*frames.values()} == {1}
    assert len(frames) == account.frames == last.plan.placed
    assert account.steps == last.steps == len(parts) == state["step"]
    assert account.blocks == sum(block.index >= 0 for step in parts for block in step)
    assert account.filler == sum(block.t_max for step in parts for block in step if block.index < 0)
    assert all(block.index >= 0 for step in parts[:-1] for block in step)
    assert all("differ from those of an undisturbed run" in str(w.message) for w in recwarn)


def test_a_position_after_an_elastic_one_is_exact_and_one_warning_is_given():
    _, state = train(8, None, 3)
    everyone = samplers(5)
    with pytest.warns(UserWarning, match="step 3 with 5 blocks per step instead of 8") as said:
        _ = [sampler.load_state_dict(state) for sampler in everyone]
    assert len(said) == 1
    whole = [[block.index for block in blocks] for blocks in everyone[2]]
    for step in range(len(whole)):
        resumed = BlockSampler(LENGTHS, rank=2, world_size=5, **SEEDS)  # not elastic: equal steps
        resumed.load_state_dict(json.loads(json.dumps(everyone[2].state_dict(3 + step))))
        assert resumed.steps == everyone[2].steps == 3 + len(whole)
        assert [[block.index for block in blocks] for blocks in resumed] == whole[step:]
        assert resumed.state_dict() == everyone[2].state_dict(3 + len(whole))
    resumed.set_epoch(1)
    assert resumed.steps == BlockSampler(LENGTHS, rank=2, world_size=5, **SEEDS).steps


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"packer": "bload_exact", "t_max": 8, "long": "carry"}, "long=carry"),
        ({"balance": "window"}, "balance=window"),
        ({"last": "drop"}, "last=drop"),
        ({"packer": "ragged"}, "packer=ragged"),
    ],
)
def test_what_reorders_or_leaves_out_blocks_is_refused(options, name):
    with pytest.raises(InputError, match=f"elastic=True .*{name}"):
        samplers(1, **options)


def test_only_another_number_of_blocks_per_step_is_elastic():
    _, state = train(8, None, 3)
    for options in ({"seed": 5}, {"packer": "bload_exact"}):
        with pytest.raises(InputError, match=next(iter(options))):
            samplers(3, **options)[0].load_state_dict(state)
    with pytest.raises(InputError, match=r"blocks per step was 8 and is 3; .*elastic=True"):
        samplers(3, elastic=False)[0].load_state_dict(state)


def loader():
    items = [torch.arange(n)[:, None] for n in LENGTHS.tolist()]
    return BlockLoader(from_dataset(items, LENGTHS), **SEEDS, elastic=True)


def save_after(ranks, steps, folder):
    part, seen = loader(), []
    for _, batch in zip(range(steps), part, strict=False):
        seen += batch.segments.sequence_S.tolist()
    dcp.save({"loader": part}, checkpoint_id=folder)
    return seen


def load_and_finish(ranks, folder):
    part = loader()
    dcp.load({"loader": part}, checkpoint_id=folder)
    return [s for batch in part for s in batch.segments.sequence_S.tolist()]


def test_the_end_of_an_epoch_is_its_end_on_any_number_of_ranks(recwarn):
    (two, _), (one,) = samplers(2), samplers(1)
    one.load_state_dict(two.state_dict(two.steps))
    assert (one.step, one.steps, one.share_done(one.step)) == (two.steps, two.steps, 1)
    assert (one.schedule.most_segments, one.schedule.imbalance()) == (0, 1)
    assert not list(one)


@pytest.mark.dist
def test_distributed_checkpoints_of_four_ranks_are_loaded_by_three(tmp_path):
    seen = []
    for size, work in ((4, (save_after, 5)), (3, (load_and_finish,))):
        folder = tmp_path / str(size)
        folder.mkdir()
        with closing(SeveralRanks(folder, size)) as ranks:
            for part in ranks.run(*work, tmp_path / "dcp"):
                seen += part
    assert sorted(seen) == [*range(len(LENGTHS))]
