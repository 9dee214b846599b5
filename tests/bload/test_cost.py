"""The cost of a micro-batch: by hand, and fitted to times."""

import numpy as np
import pytest

from bload import Cost, InputError, fit_cost, make_plan


def test_the_cost_of_a_block_by_hand():
    plan = make_plan([3, 5, 8], "naive")
    order = np.argsort(plan.length)
    cost = Cost(slot=1, frame=10, pair=100, walk=7, launch=3)
    assert cost.of_blocks(plan)[order].tolist() == [8 + 30 + 900, 8 + 50 + 2500, 8 + 80 + 6400]
    assert cost.of_shape([8, 4]).tolist() == [59, 31]
    with pytest.raises(InputError, match="finite numbers from 0 on"):
        Cost(-1.0)


def test_a_fit_finds_the_cost_behind_times():
    rng = np.random.default_rng(1)
    rows, t_max = rng.integers(1, 9, 30), rng.integers(8, 95, 30)
    frames = (rows * t_max * rng.uniform(0.3, 1, 30)).round()
    work = np.stack([rows * t_max, frames, frames**1.5, t_max, np.ones(30)], axis=1)
    seconds = work @ [2.4, 0.1, 0, 0.75, 5] / 1000 * rng.normal(1, 0.01, 30)
    found = fit_cost(work.tolist(), seconds.tolist())
    assert found.slot == pytest.approx(2.4, rel=0.05)
    assert min(found.frame, found.pair, found.launch) >= 0
