"""Blocks of several sizes: the menu is the best there is, and every packer's plan is right."""

from itertools import combinations

import numpy as np
import pytest

from bload import PACKERS, BlockSampler, Cost, InputError, action_genome_lengths, make_plan
from bload.packing.block_sizes import choose_sizes
from bload.packing.packers import find_packer

WALKED = Cost(slot=1, walk=0.5, launch=2)


def price_of(menu, lengths, batch_slots, cost, fills):
    """What an epoch costs with a menu, counted size by size."""
    sizes, total = sorted(menu), 0.0
    for above, size in zip([0, *sizes], sizes, strict=False):
        mine = lengths[(lengths > above) & (lengths <= size)]
        each = size * cost.slot + (size * cost.walk + cost.launch) / (batch_slots // size)
        if not fills:
            blocks = len(mine)
        else:
            blocks = max(-(-int(mine.sum()) // size), int((mine > max(above, size / 2)).sum()))
        total += blocks * each
    return total


@pytest.mark.parametrize("one_each", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_other_menu_costs_less(most, one_each):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        lengths = rng.choice([3, 5, 6, 9, 10, 14, 18, 20], 40)
        t_max, frames = int(lengths.max()), 40
        found = choose_sizes(lengths, t_max, most, frames, WALKED, one_each=one_each)
        candidates = {*lengths.tolist(), *(t_max // n for n in (1, 2, 3, 4))} - {t_max}
        menus = [
            (*others, t_max)
            for count in range(most)
            for others in combinations(sorted(candidates), count)
        ]
        best = min(price_of(menu, lengths, frames, WALKED, not one_each) for menu in menus)
        assert len(found) <= most
        assert price_of(found, lengths, frames, WALKED, not one_each) == pytest.approx(best)


@pytest.mark.parametrize(
    "packer", [name for name in PACKERS if not find_packer(name).makes_batches]
)
def test_every_packer_works_with_shapes(packer):
    lengths = np.random.default_rng(4).integers(1, 41, 300)
    t_max = 20 if packer in ("mix", "sampling") else 40
    for shapes in ((t_max // 2, t_max), (t_max // 4, t_max // 2, t_max)):
        plan = make_plan(lengths, packer, t_max, seed=2, block_sizes=shapes)
        smallest = np.array(shapes)[np.searchsorted(shapes, plan.block_frames)]
        assert np.array_equal(plan.slots, smallest)
        if packer not in ("mix", "sampling"):
            assert plan.deleted == 0
            assert (plan.length == lengths[plan.sequence]).all()  # none is cut
            assert make_plan([1] * 7, packer, t_max, block_sizes=shapes).deleted == 0


def test_exact_packing_stays_near_its_bound_with_two_sizes():
    plan = make_plan(action_genome_lengths(), "bload_exact", block_sizes=(47, 94))
    assert plan.padding / plan.frames < 0.003
    assert np.unique(plan.slots, return_counts=True)[1].tolist()[1] == 382  # as many as are long


def test_batches_hold_blocks_of_one_size():
    lengths = [3, 8, 20, 11, 5, 20]
    for blocks in BlockSampler(lengths, batch_slots=40, block_sizes=[5, 10, 20]):
        assert len({block.t_max for block in blocks}) == 1
        assert sum(block.t_max for block in blocks) <= 40
    with pytest.raises(InputError, match=r"\[5, 10\] and the largest block has 20 slots"):
        BlockSampler(lengths, block_sizes=[5, 10])
    with pytest.raises(InputError, match="makes batches of its own"):
        BlockSampler(lengths, "ragged", block_sizes=2)
