"""Scripts: everything that happens in a video, drawn from its world, split and index alone."""

import numpy as np

from datasets.synthetic import cues
from datasets.synthetic.cues import NO_CUE
from datasets.synthetic.script import COUNTS, write_scripts
from datasets.synthetic.world import World

MANY = World(train_videos=60, test_videos=5)


def states(script):
    """Each object's visibility and cues, with its state, and the null code of that."""
    nulls = (cues.ATTENTION_NULL, cues.CONTACTING_NULL)
    for kind, null in zip((script.attention, script.contacting), nulls, strict=True):
        for m in range(len(script.classes_M)):
            yield script.visible_TM[:, m], kind.cue_TM[:, m], kind, m, null


def test_the_label_in_force_is_the_last_cue_shown_in_this_video():
    for script in write_scripts(MANY, "train"):
        for visible_T, cue_T, kind, m, null in states(script):
            assert (cue_T[~visible_T] == NO_CUE).all()  # cues are where the object is seen
            code, age = null, NO_CUE
            for t, cue in enumerate(cue_T):
                age = age if age == NO_CUE else age + 1
                if cue != NO_CUE:
                    code, age = cue, 0
                assert (kind.code_TM[t, m], kind.age_TM[t, m]) == (code, age)


def test_frames_that_count_show_one_to_three_objects_of_distinct_classes():
    scripts = write_scripts(MANY, "train")
    for script in scripts:
        assert len(set(script.classes_M.tolist())) == len(script.classes_M) <= 3
        assert script.visible_TM.any(axis=1).all()
        counting = script.source_F[script.kind_F == COUNTS]
        np.testing.assert_array_equal(counting, np.arange(script.frames))
        # Another frame comes right before the one that it shows.
        others = np.flatnonzero(script.kind_F != COUNTS)
        np.testing.assert_array_equal(script.source_F[others], script.source_F[others + 1])
    extra = sum((script.kind_F != COUNTS).sum() for script in scripts)
    assert abs(extra / sum(script.frames for script in scripts) - 0.03) < 0.015
