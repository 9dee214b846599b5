"""Dealing blocks to ranks: equal steps, nothing twice, an account that adds up, and balance."""

from itertools import product

import numpy as np
import pytest

from bload import Cost, InputError, Plan, action_genome_lengths, make_plan
from bload.schedule.balance import BALANCES, equal_counts, make_schedule

LENGTHS = np.random.default_rng(3).integers(1, 9, 90)
PLANS = [make_plan(LENGTHS[:n], "naive", 8, seed=n) for n in (1, 2, 7, 24, 45, 90)]
PLANS += [make_plan(LENGTHS, "mix"), make_plan(LENGTHS, "sampling")]
SQUARES = Cost(pair=0.1)


def plan_of_sizes(seed=0, blocks=40):
    """Every block holds one sequence, and has 2, 4 or 8 slots."""
    lengths = np.random.default_rng(seed).integers(1, 9, blocks)
    slots = 2 ** np.ceil(np.log2(lengths)).astype(int).clip(1)
    rows = np.arange(blocks)
    return Plan(8, lengths, rows, np.zeros(blocks), lengths, [*rows, blocks], slots)


def blocks_of(schedule, step, rank):
    return np.concatenate([schedule.blocks_of(m) for m in schedule.batches_of(step, rank)])


def test_ranks_train_the_plan_once_in_equal_steps_and_the_account_adds_up():
    for ranks, per_rank, plan, last in product(range(1, 10), (1, 2, 5), PLANS, ("fill", "drop")):
        case, group = (ranks, per_rank, plan.num_blocks, last), ranks * per_rank
        frames = per_rank * plan.t_max
        if last == "drop" and plan.num_blocks < group:
            with pytest.raises(InputError, match=rf"{plan.num_blocks} blocks .* {group};"):
                make_schedule(plan, ranks, frames, last=last)
            continue
        schedule = make_schedule(plan, ranks, frames, last=last)
        count = schedule.account
        turns = product(range(count.steps), range(ranks))
        rows = np.array([blocks_of(schedule, *turn) for turn in turns])
        needed = min(per_rank, -(-plan.num_blocks // ranks))  # no more than the fullest rank has
        assert rows.shape == (count.steps * ranks, needed), case
        assert np.array_equal(np.sort(rows[rows >= 0]), np.arange(count.blocks)), case
        assert (rows == -1).sum() * plan.t_max == count.filler < group * plan.t_max, case
        assert plan.num_blocks - count.blocks < group, case
        assert count.frames == sum(plan.block(b).frames for b in range(count.blocks)), case
        assert count.frames == sum(map(schedule.frames_in_step, range(count.steps))), case
        assert count.frames + count.padding + count.filler == count.processed, case
        assert count.frames + count.deleted == plan.frames, case
        if last == "fill":
            totals = plan.num_blocks, plan.padding, plan.deleted
            assert (count.blocks, count.padding, count.deleted) == totals, case


def cases():
    plans = [*PLANS[2:6], plan_of_sizes(), plan_of_sizes(1, 333)]
    for plan, ranks, micro in product(plans, (1, 2, 3, 8, 64), (1, 4)):
        yield plan, ranks, micro, np.random.default_rng(1)


@pytest.mark.parametrize("how", BALANCES)
def test_every_deal_trains_every_block_once_and_leaves_no_rank_idle(how):
    for plan, ranks, micro, rng in cases():
        options = {"balance": how, "cost": SQUARES, "rng": rng}
        schedule = make_schedule(plan, ranks, 16, micro_batches=micro, **options)
        trained = schedule.block[schedule.block >= 0]
        assert np.array_equal(np.sort(trained), np.arange(plan.num_blocks))
        counts = np.diff(schedule.rank_offsets).reshape(schedule.steps, ranks)
        assert counts.min() >= 1
        if how != "uneven":
            assert (counts == counts[:, :1]).all()
            assert counts.max() <= micro
            assert (counts[:-1] == micro).all()
        of_entry = np.repeat(schedule.slots, np.diff(schedule.offsets))
        assert np.array_equal(of_entry[schedule.block >= 0], plan.slots[trained])
        sizes = np.diff(schedule.offsets) * schedule.slots
        assert sizes.max() <= 16
        assert schedule.account.frames == plan.frames
        assert schedule.loads().sum() == schedule.account.processed


@pytest.mark.parametrize("how", [how for how in BALANCES if how != "queue"])
def test_the_set_of_blocks_of_a_step_does_not_depend_on_the_ranks(how):
    def sets(ranks, frames, micro=1):
        options = {"balance": how, "cost": SQUARES, "rng": np.random.default_rng(5)}
        schedule = make_schedule(PLANS[5], ranks, frames, micro_batches=micro, **options)
        steps = [
            np.concatenate([blocks_of(schedule, step, rank) for rank in range(ranks)])
            for step in range(schedule.steps)
        ]
        return [sorted(blocks[blocks >= 0].tolist()) for blocks in steps]

    assert sets(8, 8) == sets(4, 16) == sets(1, 64) == sets(2, 16, 2) == sets(1, 16, 4)


def test_equal_shares_are_the_same_on_every_machine_and_in_every_version():
    rank_U = equal_counts(np.arange(19.0) ** 2 % 17, 4)
    assert "".join(map(str, rank_U)) == "1002022201333131120"


REACHED = [("none", 1, 1.144), ("none", 4, 1.069), ("pairs", 4, 1.017), ("window", 1, 1.018)]


@pytest.mark.parametrize(("how", "micro_batches", "reached"), [*REACHED, ("queue", 1, 1.052)])
def test_balance_of_action_genome_on_eight_ranks(how, micro_batches, reached):
    """Against ideal, cost l + l^2 / T_max."""
    plan = make_plan(action_genome_lengths(), "bload_exact")
    cost = Cost(slot=0, frame=1, pair=1 / plan.t_max)
    rng = np.random.default_rng([0, 0, 1])
    schedule = make_schedule(plan, 8, micro_batches=micro_batches, balance=how, cost=cost, rng=rng)
    assert reached - 0.002 < schedule.imbalance(cost) <= reached
    assert 1 <= schedule.imbalance() < 1.001  # as many slots but in the last step


def test_batches_of_several_sizes_are_balanced_by_their_walk_too():
    plan, cost = plan_of_sizes(blocks=200), Cost(slot=0, walk=1)
    found = {
        how: make_schedule(plan, 2, 8, micro_batches=6, balance=how, cost=cost).imbalance(cost)
        for how in ("none", "pairs", "uneven")
    }
    assert max(found["pairs"], found["uneven"]) < 1.03 < 1.09 < found["none"]
    free = make_schedule(PLANS[5], 3, 8, micro_batches=4, balance="uneven", cost=Cost(slot=0))
    assert np.diff(free.rank_offsets).tolist() == [4] * 21 + [2] * 3  # free blocks go round
    assert free.imbalance(Cost(slot=0)) == 1
