import pickle
from dataclasses import replace

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.vocabulary import CONTACTING
from datasets.synthetic import World, write_script, write_scripts
from datasets.synthetic.cues import (
    ATTENTION_NULL,
    CONTACTING_CODES,
    CONTACTING_NULL,
    NO_CUE,
)
from datasets.synthetic.script import COUNTS

MANY = World(train_videos=60, test_videos=5)


def states(script):
    """Each object's visibility with each of its two states and that state's null code."""
    for told, null in ((script.attention, ATTENTION_NULL), (script.contacting, CONTACTING_NULL)):
        for m in range(len(script.classes_M)):
            yield script.visible_TM[:, m], told.cue_TM[:, m], told, m, null


def test_a_script_is_the_same_whenever_it_is_written():
    one, again = (write_script(MANY, "train", 7, 20) for _ in range(2))
    other = write_script(replace(MANY, seed=1), "train", 7, 20)
    assert pickle.dumps(one) == pickle.dumps(again)
    assert not np.array_equal(one.person_boxes_T4, other.person_boxes_T4)


def test_splits_and_videos_differ():
    scripts = [write_script(MANY, s, i, 20) for s, i in (("train", 0), ("train", 1), ("test", 0))]
    walks = {script.person_boxes_T4.tobytes() for script in scripts}
    assert len(walks) == 3


def test_an_image_size_changes_no_label():
    small, large = (
        write_script(replace(MANY, image_size=size), "test", 2, 30) for size in (64, 256)
    )
    np.testing.assert_array_equal(small.visible_TM, large.visible_TM)
    np.testing.assert_array_equal(small.contacting.code_TM, large.contacting.code_TM)
    np.testing.assert_allclose(small.object_boxes_TM4 * 4, large.object_boxes_TM4, atol=8)


def test_the_label_in_force_is_the_last_cue_shown_in_this_video():
    for script in write_scripts(MANY, "train"):
        for _, cue_T, told, m, null in states(script):
            code, age = null, NO_CUE
            for t, cue in enumerate(cue_T):
                age = age if age == NO_CUE else age + 1
                if cue != NO_CUE:
                    code, age = cue, 0
                assert (told.code_TM[t, m], told.age_TM[t, m]) == (code, age)


def test_cues_stand_only_where_the_object_is_seen():
    for script in write_scripts(MANY, "train"):
        for visible_T, cue_T, *_ in states(script):
            assert (cue_T[~visible_T] == NO_CUE).all()


def test_about_half_of_first_cues_come_late():
    late = [
        cue_T[np.argmax(visible_T)] == NO_CUE
        for script in write_scripts(MANY, "train")
        for visible_T, cue_T, *_ in states(script)
    ]
    assert 0.4 < np.mean(late) < 0.6


def test_boxes_lie_in_the_image_and_objects_never_overlap():
    for objects in (3, 9):
        for script in write_scripts(replace(MANY, max_objects=objects), "test"):
            boxes = np.concatenate(
                [script.person_boxes_T4[:, None], script.object_boxes_TM4], axis=1
            )
            assert boxes.min() >= 0
            assert boxes.max() <= 64
            sides = script.object_boxes_TM4[..., 2:] - script.object_boxes_TM4[..., :2]
            assert sides.min() >= 14
            assert sides.max() <= 24
            for first in range(len(script.classes_M)):
                for second in range(first):
                    a, b = script.object_boxes_TM4[:, first], script.object_boxes_TM4[:, second]
                    apart = (a[:, 2:] <= b[:, :2]) | (b[:, 2:] <= a[:, :2])
                    assert apart.any(axis=1).all()


def test_motion_is_smooth():
    for script in write_scripts(MANY, "train"):
        assert np.abs(np.diff(script.object_boxes_TM4, axis=0)).max(initial=0) <= 11
        assert np.abs(np.diff(script.person_boxes_T4, axis=0)).max(initial=0) <= 16


def test_frames_that_count_show_one_to_three_objects_of_distinct_classes():
    for script in write_scripts(MANY, "train"):
        assert len(set(script.classes_M.tolist())) == len(script.classes_M) <= 3
        assert script.visible_TM.any(axis=1).all()
        assert (script.kind_F == COUNTS).sum() == script.frames
        np.testing.assert_array_equal(
            script.source_F[script.kind_F == COUNTS], np.arange(script.frames)
        )


def test_all_17_contacting_relations_have_a_code_of_their_own():
    singles = {codes[0] for codes in CONTACTING_CODES if len(codes) == 1}
    assert singles == set(range(26)[CONTACTING])
    assert len(set(CONTACTING_CODES)) == 25


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_default_world_shows_every_relation_and_every_class(split):
    relations, classes = set(), set()
    for script in write_scripts(World(), split):
        classes.update(script.classes_M.tolist())
        for target in script.targets():
            relations.update(target.relations_G2[:, 1].tolist())
            per_group = target.relations_MR()
            assert (per_group[:, :3].sum(axis=1) == 1).all()
            assert np.isin(per_group[:, 3:9].sum(axis=1), (1, 2)).all()
            assert np.isin(per_group[:, 9:].sum(axis=1), (1, 2)).all()
    assert relations == set(range(26))
    assert classes == set(World().classes_K().tolist())


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"image_size": 16}, "image_size is 16 but must be between 32 and"),
        ({"object_classes": 36}, "object_classes is 36"),
        ({"object_classes": 2}, "max_objects is 3 but there are only 2"),
        ({"cue_rate": 1.5}, "cue_rate is 1.5"),
    ],
)
def test_impossible_knobs_are_named(knobs, message):
    with pytest.raises(InputError, match=message):
        World(**knobs)
