"""Dealing blocks to ranks: equal steps, nothing twice, and an account that adds up."""

from itertools import product

import numpy as np
import pytest

from bload import InputError, account, deal, make_plan

RANKS = range(1, 10)
SIZES = [(ranks, per_rank) for ranks, per_rank in product(RANKS, (1, 2, 3, 5))]
LENGTHS = np.random.default_rng(3).integers(1, 9, 90)
PLANS = {
    blocks: make_plan(LENGTHS[:blocks], "naive", 8, seed=blocks) for blocks in (1, 2, 7, 24, 45, 90)
}


@pytest.mark.parametrize(("ranks", "per_rank"), SIZES)
def test_all_ranks_together_train_the_plan_once(ranks, per_rank):
    for blocks, plan in PLANS.items():
        steps = account(plan, ranks * per_rank).steps
        dealt = [deal(blocks, ranks, per_rank, s, r) for s in range(steps) for r in range(ranks)]
        assert {len(some) for some in dealt} == {per_rank}
        everything = np.concatenate(dealt)
        np.testing.assert_array_equal(np.sort(everything[everything >= 0]), np.arange(blocks))
        assert (everything == -1).sum() == steps * ranks * per_rank - blocks
        assert (everything == -1).sum() < ranks * per_rank


@pytest.mark.parametrize(("ranks", "per_rank"), SIZES)
def test_dropping_leaves_out_the_last_blocks_alone(ranks, per_rank):
    for blocks, plan in PLANS.items():
        group = ranks * per_rank
        if blocks < group:
            with pytest.raises(InputError, match=f"has {blocks} blocks but one step .* {group}"):
                account(plan, group, "drop")
            continue
        steps = account(plan, group, "drop").steps
        dealt = [deal(blocks, ranks, per_rank, s, r) for s in range(steps) for r in range(ranks)]
        np.testing.assert_array_equal(np.sort(np.concatenate(dealt)), np.arange(steps * group))
        assert blocks - steps * group < group


@pytest.mark.parametrize("group", [1, 6, 8, 12])
def test_a_step_is_the_same_for_any_number_of_ranks(group):
    for blocks, plan in PLANS.items():
        for step in range(account(plan, group).steps):
            expected = [b if b < blocks else -1 for b in range(step * group, (step + 1) * group)]
            for ranks in (r for r in range(1, group + 1) if group % r == 0):
                parts = [deal(blocks, ranks, group // ranks, step, r) for r in range(ranks)]
                assert sorted(np.concatenate(parts)) == sorted(expected)
                # like cards: the r-th rank's parts are every ranks-th of the step
                assert np.stack(parts, axis=1).ravel().tolist() == expected


@pytest.mark.parametrize("last", ["fill", "drop"])
@pytest.mark.parametrize(("ranks", "per_rank"), SIZES)
def test_the_account_adds_up(ranks, per_rank, last):
    group = ranks * per_rank
    plans = [*PLANS.values(), make_plan(LENGTHS, "mix"), make_plan(LENGTHS, "sampling")]
    for plan in plans:
        if last == "drop" and plan.blocks < group:
            continue
        count = account(plan, group, last)
        assert count.frames + count.padding + count.filler == count.processed
        assert count.processed == count.steps * group * plan.t_max
        assert count.frames + count.deleted == plan.frames
        assert count.frames == sum(plan.block(b).frames for b in range(count.blocks))
        if last == "fill":
            assert (count.blocks, count.padding, count.deleted) == (
                plan.blocks,
                plan.padding,
                plan.deleted,
            )
        else:
            assert count.filler == 0


def test_fillers_are_not_counted_as_padding():
    plan = make_plan([3, 4, 4], "naive", 4)
    count = account(plan, 2)
    assert (count.steps, count.blocks, count.padding, count.filler) == (2, 3, 1, 4)


def test_last_is_fill_or_drop():
    with pytest.raises(InputError, match="last is 'repeat'; choose fill or drop"):
        account(PLANS[7], 2, "repeat")
