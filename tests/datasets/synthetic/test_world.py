"""The knobs of the world, the lengths that follow from them, and the labels of scripts."""

import itertools

import numpy as np
import pytest

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from datasets.synthetic import cues
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World, draw_lengths


def test_impossible_knobs_are_named_with_their_value():
    for knobs, words in (
        ({"object_classes": 2}, "max_objects is 3, .* 2 "),
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


def test_the_label_in_force_is_the_last_cue_shown_in_this_video():
    for script in write_scripts(World(train_videos=60, test_videos=5), "train"):
        kinds = (script.attention, cues.ATTENTION_NULL), (script.contacting, cues.CONTACTING_NULL)
        for (states, null), m in itertools.product(kinds, range(len(script.classes_M))):
            cue_T = states.cue_TM[:, m]
            assert (cue_T[~script.visible_TM[:, m]] == cues.NO_CUE).all()
            code, age = null, cues.NO_CUE
            for t, cue in enumerate(cue_T):
                age = age if age == cues.NO_CUE else age + 1
                if cue != cues.NO_CUE:
                    code, age = cue, 0
                assert (states.code_TM[t, m], states.age_TM[t, m]) == (code, age)
