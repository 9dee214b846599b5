"""The recall of observers of limited memory is computed exactly, and they see no more."""

import itertools

import numpy as np
import pytest

from datasets.annotations.vocabulary import SPATIAL
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.recall import RecallMeter
from datasets.synthetic import cues, observers
from datasets.synthetic.observers import EVERYTHING, evidence_ages, expected_recall, triplet_weights
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World
from datasets.synthetic.yardsticks import make_yardsticks
from tests.datasets.box_root import open_root

KINDS = (
    ("attention", cues.ATTENTION_CHANCES, cues.ATTENTION_CODES),
    ("contacting", cues.CONTACTING_CHANCES, cues.CONTACTING_CODES),
)


@pytest.fixture(scope="module")
def scripts():
    return write_scripts(World(test_videos=40, max_objects=4), "test")


def observe(script, memory, part=False):
    """Predict each frame with the observer's weights as scores; the measure does the rest."""
    predictions = []
    weights_TMR = triplet_weights(script, memory, part)
    for target, weights_MR, visible_M in zip(
        script.targets(), weights_TMR, script.visible_TM, strict=True
    ):
        person_1, objects = target.person_box_4[None], len(target.object_classes_M)
        boxes = np.repeat(person_1, objects, axis=0), target.object_boxes_M4
        scores = np.ones(objects), np.ones(objects), weights_MR[visible_M]
        predictions.append(FramePrediction(*boxes, target.object_classes_M, *scores))
    return predictions


def enumerated_weights(script, t, memory, part):
    """E[1(triplet holds) / G] of one frame by going through all joint codes."""
    weights_MR = np.zeros((len(script.classes_M), 26))
    choices, certain = [], []
    for m in np.flatnonzero(script.visible_TM[t]):
        if not part:
            certain += [(m, SPATIAL.start + r) for r in np.flatnonzero(script.spatial_TM6[t, m])]
        for kind, chances, codes in KINDS:
            states = getattr(script, kind)
            age, code = states.age_TM[t, m], states.code_TM[t, m]
            if part and age < 1:
                continue
            held = range(len(codes)) if age >= memory else [code]
            choices.append([(chances[c] if age >= memory else 1, m, codes[c]) for c in held])
    for joint in itertools.product(*choices):
        chance = np.prod([p for p, _, _ in joint])
        triplets = certain + [(m, r) for _, m, relations in joint for r in relations]
        for m, r in triplets:
            weights_MR[m, r] += chance / len(triplets)
    return weights_MR


def realised_recall(scripts, memory, part):
    """Recall of the observer on the labels that were drawn."""
    meter = RecallMeter()
    for script in scripts:
        meter.update(observe(script, memory, part), script.targets())
    needs_G = np.concatenate([age_G >= 1 for script in scripts for age_G in evidence_ages(script)])
    return meter.recall("with", 20, needs_G if part else None)


def test_weights_are_the_expectation_over_all_joint_codes():
    checked = 0
    for script in write_scripts(World(test_videos=8, max_objects=2, delay_rate=1), "test"):
        for memory, part in itertools.product((1, 3, EVERYTHING), (False, True)):
            weights_TMR = observers.triplet_weights(script, memory, part)
            for t in range(0, script.frames, 9):
                wanted_MR = enumerated_weights(script, t, memory, part)
                np.testing.assert_allclose(weights_TMR[t], wanted_MR, rtol=1e-12, atol=1e-15)
                checked += script.visible_TM[t].sum() == 2
    assert checked >= 30


@pytest.mark.parametrize("part", [False, True])
def test_the_measure_gives_observers_what_they_expect(scripts, part):
    few = scripts[:16]
    expected = expected_recall(few, EVERYTHING, part)
    assert realised_recall(few, EVERYTHING, part) == pytest.approx(expected, abs=1e-12)
    assert 0.5 < expected < 1  # a pair of two relations in a group loses one
    # Codes are independent between videos but not within one: the standard error is of videos.
    gaps = []
    for script in few:
        remembered = sum((age_G >= 1).any() for age_G in evidence_ages(script))
        if remembered:
            gap = realised_recall([script], 1, part) - expected_recall([script], 1, part)
            gaps.append((remembered if part else script.frames) * gap)
    assert 0 < abs(np.sum(gaps)) < 3 * np.sqrt(np.sum(np.square(gaps)))


def test_flags_follow_the_rows_of_the_data_set(small_world, small_root):
    source, scripts = open_root(small_root, "test", (64, 64)), write_scripts(small_world, "test")
    flags_of = make_yardsticks(source, small_world).memory_of
    assert len(flags_of) == source.lengths.sum()
    for script in scripts:
        for target, age_G in zip(script.targets(), evidence_ages(script), strict=True):
            np.testing.assert_array_equal(flags_of[target.name], age_G >= 1)
    assert 0.2 < np.concatenate(list(flags_of.values())).mean() < 0.6
