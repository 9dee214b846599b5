"""The cost of a micro-batch: by hand, and fitted to times."""

import numpy as np
import pytest
import torch

from bload import BlockLoader, Cost, InputError, fit_cost, from_dataset, make_plan


def test_the_cost_of_a_block_by_hand():
    plan = make_plan([3, 5, 8], "naive")
    order = np.argsort(plan.length)
    cost = Cost(slot=1, frame=10, pair=100, walk=7, launch=3)
    assert cost.of_blocks(plan)[order].tolist() == [8 + 30 + 900, 8 + 50 + 2500, 8 + 80 + 6400]
    assert cost.of_shape([8, 4]).tolist() == [59, 31]


def test_the_scores_of_attention_in_a_batch_are_the_pairs_of_the_schedule():
    source = from_dataset([torch.zeros(n) for n in (3, 2, 5, 4, 4, 1, 7)], length=len)
    loader = BlockLoader(source, t_max=8, multiple_of=2)
    loads_S = loader.sampler.schedule.loads(Cost(slot=0, pair=1))[:, 0]
    batches = list(loader)
    scores = [batch.attention_mask(False)[:, 0][batch.valid_BT].sum() for batch in batches]
    assert [batch.pairs for batch in batches] == scores == loads_S.tolist()


def test_a_fit_finds_the_cost_behind_times_and_predicts_others():
    rng = np.random.default_rng(1)
    true = Cost(slot=2.4, frame=0.1, walk=0.75, launch=5)

    def work(count):
        rows, t_max = rng.integers(1, 9, count), rng.integers(8, 95, count)
        slots = rows * t_max
        frames = (slots * rng.uniform(0.3, 1, count)).round()
        return np.stack([slots, frames, frames**1.5, t_max, np.ones(count)], axis=1)

    numbers = np.array([true.slot, true.frame, true.pair, true.walk, true.launch])
    seen, unseen = work(30), work(30)
    noise = rng.normal(1, 0.01, 30)
    found = fit_cost(seen.tolist(), (seen @ numbers / 1000 * noise).tolist())
    fitted = np.array([found.slot, found.frame, found.pair, found.walk, found.launch])
    assert (fitted >= 0).all()
    assert np.abs(unseen @ fitted / (unseen @ numbers) - 1).max() < 0.02
    assert found.slot == pytest.approx(true.slot, rel=0.05)


def test_a_cost_that_is_none_is_refused():
    for numbers in ((-1.0,), (1.0, np.nan), (1.0, 0.0, np.inf)):
        with pytest.raises(InputError, match="finite numbers from 0 on"):
            Cost(*numbers)
    with pytest.raises(InputError, match="give 5 or more"):
        fit_cost([(1, 1, 1, 1, 1)], [1.0])
