"""The knobs of the world, the lengths that follow from them, and the spatial rule."""

import numpy as np
import pytest

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from datasets.annotations.vocabulary import RELATIONS, SPATIAL
from datasets.synthetic.spatial import spatial_relations
from datasets.synthetic.world import World, draw_lengths


def test_impossible_knobs_are_named_with_their_value():
    for knobs, words in (
        ({"object_classes": 2}, "max_objects is 3 .* 2"),
        ({"cue_rate": 1.5}, "cue_rate is 1.5; .* 1"),
    ):
        with pytest.raises(InputError, match=words):
            World(**knobs)


@pytest.mark.parametrize(
    ("split", "frames", "fewer", "mean"),
    [("train", 166_785, 200, 22.345), ("test", 54_371, 60, 31.3)],
)
def test_lengths_have_the_real_histogram_or_an_even_thinning_of_it(split, frames, fewer, mean):
    real = action_genome_lengths(split)
    one, other = (draw_lengths(split, len(real), np.random.default_rng(seed)) for seed in (1, 2))
    assert one.sum() == frames
    assert not np.array_equal(one, other)  # only the order depends on the generator
    for lengths in (one, other):
        np.testing.assert_array_equal(np.sort(lengths), np.sort(real))
    few = draw_lengths(split, fewer, np.random.default_rng(0))
    assert abs(few.mean() - mean) < 0.2
    assert few.min() <= 4
    assert few.max() > 70


@pytest.mark.parametrize(
    ("centre", "in_front", "held"),
    [
        ((32, 10), True, {"above"}),
        ((32, 54), False, {"beneath"}),
        ((10, 32), False, {"on_the_side_of"}),
        ((54, 10), True, {"above", "on_the_side_of"}),
        ((32, 43), True, {"in_front_of"}),
        ((32, 43), False, {"behind"}),
        ((33, 31), True, {"in_front_of", "in"}),
        ((33, 31), False, {"behind", "in"}),
    ],
)
def test_the_spatial_rule_in_words(centre, in_front, held):
    person, box = np.array([(26, 20, 38, 44), (*np.subtract(centre, 8), *np.add(centre, 8))])
    found = spatial_relations(person, box, np.array(in_front))
    assert {RELATIONS[SPATIAL][index] for index in np.flatnonzero(found)} == held
