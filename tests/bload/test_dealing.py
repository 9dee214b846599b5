"""Dealing blocks to ranks: equal steps, nothing twice, and an account that adds up."""

from itertools import product

import numpy as np
import pytest

from bload import InputError, account, deal, make_plan

LENGTHS = np.random.default_rng(3).integers(1, 9, 90)
PLANS = [make_plan(LENGTHS[:n], "naive", 8, seed=n) for n in (1, 2, 7, 24, 45, 90)]
PLANS += [make_plan(LENGTHS, "mix"), make_plan(LENGTHS, "sampling")]


def test_ranks_train_the_plan_once_in_equal_steps_and_the_account_adds_up():
    for ranks, per_rank, plan, last in product(range(1, 10), (1, 2, 5), PLANS, ("fill", "drop")):
        case, group = (ranks, per_rank, plan.blocks, last), ranks * per_rank
        if last == "drop" and plan.blocks < group:
            with pytest.raises(InputError, match=rf"{plan.blocks} blocks .* {group};"):
                account(plan, group, last)
            continue
        count = account(plan, group, last)
        turns = product(range(count.steps), range(ranks))
        dealt = np.array([deal(plan.blocks, ranks, per_rank, *turn) for turn in turns])
        assert dealt.shape == (count.steps * ranks, per_rank), case
        assert np.array_equal(np.sort(dealt[dealt >= 0]), np.arange(count.blocks)), case
        assert (dealt == -1).sum() * plan.t_max == count.filler < group * plan.t_max, case
        assert plan.blocks - count.blocks < group, case
        assert count.processed == dealt.size * plan.t_max, case
        assert count.frames == sum(plan.block(b).frames for b in range(count.blocks)), case
        assert count.frames + count.padding + count.filler == count.processed, case
        assert count.frames + count.deleted == plan.frames, case
        if last == "drop":
            assert count.filler == 0, case
        else:
            totals = plan.blocks, plan.padding, plan.deleted
            assert (count.blocks, count.padding, count.deleted) == totals, case


def test_a_step_is_the_same_for_any_number_of_ranks():
    for group, plan in product([1, 6, 8, 12], PLANS):
        for step in range(account(plan, group).steps):
            blocks = np.arange(step * group, (step + 1) * group)
            expected = np.where(blocks < plan.blocks, blocks, -1)
            for ranks in (r for r in range(1, group + 1) if group % r == 0):
                parts = [deal(plan.blocks, ranks, group // ranks, step, r) for r in range(ranks)]
                # like cards: the r-th rank's parts are every ranks-th of the step
                assert np.array_equal(np.stack(parts, axis=1).ravel(), expected), (group, ranks)
