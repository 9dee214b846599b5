"""From ranks to figures: means by hand, merging, what is refused."""

import numpy as np
import pytest

from bload.errors import InputError
from datasets.scoring.recall import RecallMeter
from tests.datasets.scoring.drawing import cup_frame


def frame(name, labels, said):
    """A frame of one cup with `labels`, of which the model says `said`, one pair for each."""
    return cup_frame(name, labels, [[relation] for relation in said])


def metered(frames):
    meter = RecallMeter()
    meter.update(*zip(*frames, strict=True))
    return meter


# Relations found with "semi" (only scores above 0.9 beside the best attention):
#   a: labels 0 4 4 9, says 0 and 4 -> 3 of 4
#   b: labels 0 4,     says 0       -> 1 of 2
#   c: labels 1 10,    says nothing -> 0 of 2, and counts
THREE = [frame("a", [0, 4, 4, 9], [0, 4]), frame("b", [0, 4], [0]), frame("c", [1, 10], [])]


def test_mean_recall_in_both_definitions():
    summary = metered(THREE).summary()
    # By frames: 0 -> (1 + 1) / 2; 4 -> (2/2 + 0/1) / 2; 9, 1, 10 -> 0; the other 21 count as 0.
    assert summary["semi/mean_recall@20"] == pytest.approx((1 + 0.5) / 26)
    # Pooled: 0 -> 2 of 2; 4 -> 2 of 3.
    assert summary["semi/pooled_mean_recall@20"] == pytest.approx((1 + 2 / 3) / 26)
    assert (summary["frames"], summary["triplets"], summary["relation_classes"]) == (3, 8, 5)


def test_a_part_of_the_triplets_has_its_own_recall():
    # Of a only label 9 (missed) and one 4 (found), of b only 0 (found), nothing of c: c is not in
    # the mean then.
    chosen_G, meter = np.array([0, 1, 0, 1, 1, 0, 0, 0], bool), metered(THREE)
    figures = meter.part_summary("memory", chosen_G)
    assert figures["semi/recall@20_memory"] == pytest.approx((1 / 2 + 1) / 2)
    assert meter.summary()["semi/recall@20"] == pytest.approx((3 / 4 + 1 / 2) / 3)
    assert meter.part_summary("memory", np.zeros(8, bool)) == {}


def random_frames(seed, count):
    rng = np.random.default_rng(seed)
    return [
        frame(f"{i:04d}", rng.integers(0, 26, 6), rng.integers(0, 26, rng.integers(0, 9)))
        for i in range(count)
    ]


def test_merged_ranks_equal_one_meter():
    for world, seed in ((1, 0), (4, 0)):
        frames = random_frames(seed, 61)
        whole = metered(frames).summary()
        deal = np.random.default_rng(seed).integers(world, size=len(frames))
        states = [RecallMeter().state()]  # of a rank without frames
        for rank in range(world):
            own = [frames[i] for i in np.flatnonzero(deal == rank)[::-1]]
            meter = RecallMeter()
            for first in range(0, len(own), 7):
                meter.update(*zip(*own[first : first + 7], strict=True))
            states.append(meter.state())
        assert RecallMeter().merge(states).summary() == whole  # to the last bit
        assert RecallMeter().merge(states[::-1]).summary() == whole


def test_a_frame_counts_once():
    sentence = "frame 'b' was counted already"
    meter = metered(THREE)
    before = meter.summary()
    with pytest.raises(InputError, match=sentence):
        meter.update([THREE[1][0]], [THREE[1][1]])
    with pytest.raises(InputError, match=sentence):
        meter.merge([metered([THREE[1]]).state()])
    assert meter.summary() == before
