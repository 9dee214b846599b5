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


def ragged_work(lengths, ranks, batch_slots, seed=0):
    frames = max(batch_slots, int(np.max(lengths)))
    plan = make_plan(lengths, "ragged", seed=seed, batch_slots=batch_slots)
    return predict_work([plan], ranks, frames)


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("batch_slots", [13, 20, 40, 10_000])
def test_ragged_work_is_that_of_batches_filled_one_by_one(small_lengths, ranks, batch_slots):
    for seed in range(5):
        work = ragged_work(small_lengths, ranks, batch_slots, seed)
        by_hand = ragged_by_hand(small_lengths, ranks, batch_slots, seed)
        assert (work.steps, work.slots) == by_hand, seed


def test_the_longest_sequence_is_recommended_where_few_slots_are_empty():
    advice = recommend_t_max(action_genome_lengths("train"), ranks=8)
    assert (advice.t_max, advice.long, advice.cut) == (94, "error", 0)
    assert advice.empty == pytest.approx(1 - 166_785 / (222 * 8 * 94))


def test_a_multiple_is_recommended_where_sequences_cannot_share_a_block():
    advice = recommend_t_max([6] * 500 + [10], ranks=2)
    assert (advice.t_max, advice.empty <= 0.02) == (30, True)


def test_splitting_is_recommended_where_a_few_long_sequences_starve_the_ranks():
    lengths = [10] * 1000 + [5000]
    advice = recommend_t_max(lengths, ranks=8)
    assert (advice.long, advice.cut, advice.t_max < 5000) == ("split", 1, True)
    assert "splits 1 sequence;" in str(advice)
    assert recommend_t_max(lengths, ranks=3).t_max == 5000, "three blocks suffice for three ranks"


def test_sequences_of_any_length_that_packs_get_a_recommendation():
    assert recommend_t_max([300_000, 300_000, 290_000, 100_000]).t_max in (
        300_000,
        600_000,
        900_000,
    )
    assert recommend_t_max([2_000_000, 100, 90]).long == "split"


def test_a_recommendation_keeps_within_the_slots_of_a_rank():
    assert recommend_t_max([6] * 300 + [10], ranks=2, batch_slots=20).t_max <= 20
    advice = recommend_t_max([6] * 300 + [10], ranks=2, batch_slots=8)
    assert (advice.t_max, advice.long, advice.cut) == (8, "split", 1)
    few = recommend_t_max([3, 4, 5], ranks=8)
    assert few.empty > 0.5
