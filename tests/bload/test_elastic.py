"""Positions that go on with another number of blocks per step, such as that of other ranks."""

import json
from itertools import islice

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from bload import BlockLoader, BlockSampler, InputError, from_dataset
from tests.bload.conftest import frames_of, samplers, train

LENGTHS = np.random.default_rng(0).integers(1, 13, 300)
SEEDS = {"packer": "bload", "t_max": 12, "seed": 4}


def of_ranks(ranks, **options):
    return samplers(LENGTHS, ranks, **(SEEDS | {"elastic": True} | options))


def after(ranks, steps):
    """The position after some steps."""
    everyone = of_ranks(ranks)
    train(everyone, steps=steps)
    return everyone[0].state_dict()


@pytest.mark.parametrize("chain", [(8, 7), (8, 6), (8, 64), (7, 8), (8, 3, 5, 8, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"packer": "bload_exact", "long": "split", "t_max": 8},
        {"packer": "mix", "micro_batches": 2},
        {"balance": "pairs", "batch_slots": 24},
        {"balance": "uneven", "batch_slots": 24},
        {"chunk": 30},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "bload",
)
def test_every_frame_is_trained_once_over_all_parts(chain, options, recwarn):
    state, parts = None, []
    for ranks, count in zip(chain, [*[2] * (len(chain) - 1), 10**6], strict=True):
        everyone = of_ranks(ranks, **options)
        parts += train(everyone, state, count)
        state = everyone[0].state_dict()
    sampler, frames = everyone[0], frames_of(parts)
    blocks = [block for step in parts for batch in step for block in batch]
    account = sampler.account
    assert len({*frames}) == len(frames) == account.frames == sampler.plan.placed
    assert account.steps == sampler.steps == len(parts) == state["step"]
    assert account.blocks == sum(block.index >= 0 for block in blocks)
    assert account.filler == sum(block.t_max for block in blocks if block.index < 0)
    assert all(block.index >= 0 for step in parts[:-1] for batch in step for block in batch)
    first = sampler.position.first_step
    shares = [sampler.share_done(step) for step in range(first, len(parts) + 1)]
    assert [*shares[:-1], 1] == sorted({*shares})
    assert all("differ from those of an undisturbed run" in str(w.message) for w in recwarn)


def test_a_position_after_an_elastic_one_is_exact_and_one_warning_is_given():
    state, everyone = after(8, 3), of_ranks(5)
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
        of_ranks(1, **options)


def test_only_another_number_of_blocks_per_step_is_elastic():
    state = after(8, 3)
    for options in ({"seed": 5}, {"packer": "bload_exact"}):
        with pytest.raises(InputError, match=next(iter(options))):
            of_ranks(3, **options)[0].load_state_dict(state)
    with pytest.raises(InputError, match=r"blocks per step was 8 and is 3; .*elastic=True"):
        of_ranks(3, elastic=False)[0].load_state_dict(state)


def test_the_end_of_an_epoch_is_its_end_on_any_number_of_ranks(recwarn):
    (two, _), (one,) = of_ranks(2), of_ranks(1)
    one.load_state_dict(two.state_dict(two.steps))
    assert (one.step, one.steps, one.share_done(one.step)) == (two.steps, two.steps, 1)
    assert one.schedule.imbalance() == 1
    assert not list(one)


def test_a_distributed_checkpoint_of_four_ranks_is_loaded_by_three(tmp_path, recwarn):
    source = from_dataset([torch.zeros(n) for n in LENGTHS.tolist()], LENGTHS)

    def loaders(ranks):
        options = {"world_size": ranks, "elastic": True, **SEEDS}
        return [BlockLoader(source, rank=rank, **options) for rank in range(ranks)]

    four, three = loaders(4), loaders(3)
    read = [batch for loader in four for batch in islice(loader, 5)]
    assert all(loader.state_dict() == four[0].state_dict() for loader in four)  # saved by any
    dcp.save({"loader": four[0]}, checkpoint_id=tmp_path)
    for loader in three:
        dcp.load({"loader": loader}, checkpoint_id=tmp_path)
        read += loader
    sequences = torch.cat([batch.segments.sequence_S for batch in read])
    assert sorted(sequences.tolist()) == [*range(len(LENGTHS))]


def test_batches_before_an_elastic_resume_count():
    options = {"t_max": 12, "micro_batches": 2, "elastic": True}
    state = BlockSampler(LENGTHS, rank=0, world_size=2, **options).state_dict(3)
    one = BlockSampler(LENGTHS, **options)
    with pytest.warns(UserWarning, match="goes on after step 3"):
        one.load_state_dict(state)
    assert len(one) == 3 * 2 + len([*one])
