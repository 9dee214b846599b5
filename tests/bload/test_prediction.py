"""Predicted work against counts made another way, and the block size recommended from it."""

import numpy as np
import pytest

from bload import action_genome_lengths, make_plan
from bload.show.recommendation import predict_work, recommend_t_max


def ragged_by_hand(lengths, ranks, batch_slots, seed):
    """Slots of ragged batches, one sequence and one step at a time."""
    batches = [[]]
    for length in np.random.default_rng([seed, 0]).permutation(lengths).tolist():
        if batches[-1] and sum(batches[-1]) + length > batch_slots:
            batches.append([])
        batches[-1].append(length)
    steps = [batches[first : first + ranks] for first in range(0, len(batches), ranks)]
    return len(steps), sum(ranks * max(sum(batch) for batch in step) for step in steps)


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_ragged_work_is_that_of_batches_filled_one_by_one(small_lengths, ranks):
    for batch_slots in (13, 40, 10_000):
        plan = make_plan(small_lengths, "ragged", seed=3, batch_slots=batch_slots)
        work = predict_work([plan], ranks, batch_slots)
        assert work == ragged_by_hand(small_lengths, ranks, batch_slots, 3)


def test_a_block_size_is_recommended_that_leaves_few_slots_empty_on_all_ranks():
    advice = recommend_t_max(action_genome_lengths("train"), ranks=8)
    assert advice.t_max == 94
    assert advice.empty == pytest.approx(1 - 166_785 / (222 * 8 * 94))
    advice = recommend_t_max([6] * 500 + [10], ranks=2)  # sequences cannot share a block of 10
    assert (advice.t_max, advice.empty <= 0.02) == (30, True)
    assert recommend_t_max([6] * 300 + [10], ranks=2, batch_slots=20).t_max <= 20
