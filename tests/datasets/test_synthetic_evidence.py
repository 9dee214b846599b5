"""Which triplets must be remembered, and that a data set's rows get their own flags."""

from dataclasses import replace

import numpy as np
import pytest

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.vocabulary import ATTENTION, SPATIAL
from datasets.synthetic import write_scripts
from datasets.synthetic.cues import NO_CUE
from datasets.synthetic.evidence import evidence_ages, memory_flags


@pytest.fixture(scope="module")
def scripts(small_world):
    return write_scripts(small_world, "test")


@pytest.fixture(scope="module")
def source(small_root):
    return ActionGenome(small_root, "test", (64, 64))


class Reversed:
    """The same split with the objects of each frame and their relations the other way round."""

    def __init__(self, source):
        self.source, self.root, self.lengths = source, source.root, source.lengths

    def targets(self, sequence, first, length):
        return [turned(target) for target in self.source.targets(sequence, first, length)]


def turned(target):
    objects = len(target.object_classes_M)
    return replace(
        target,
        object_boxes_M4=target.object_boxes_M4[::-1],
        object_classes_M=target.object_classes_M[::-1],
        relations_G2=(target.relations_G2 * (-1, 1) + (objects - 1, 0))[::-1],
    )


def test_ages_are_those_of_the_told_states(scripts):
    seen = set()
    for script in scripts:
        for t, (target, age_G) in enumerate(
            zip(script.targets(), evidence_ages(script), strict=True)
        ):
            objects = np.flatnonzero(script.visible_TM[t])
            for (row, relation), age in zip(target.relations_G2, age_G, strict=True):
                told = script.attention if relation < ATTENTION.stop else script.contacting
                if SPATIAL.start <= relation < SPATIAL.stop:
                    assert age == 0
                else:
                    assert age == told.age_TM[t, objects[row]]
                    seen.add(int(age))
    assert {NO_CUE, 0, 1, 2} <= seen


def test_flags_follow_the_rows_of_the_data_set(scripts, source):
    flags_of = memory_flags(source, scripts)
    assert len(flags_of) == source.lengths.sum()
    for script in scripts:
        for target, age_G in zip(script.targets(), evidence_ages(script), strict=True):
            np.testing.assert_array_equal(flags_of[target.name], age_G >= 1)
    assert 0.2 < np.concatenate(list(flags_of.values())).mean() < 0.6


def test_flags_follow_rows_in_another_order(scripts, source):
    there, here = memory_flags(source, scripts), memory_flags(Reversed(source), scripts)
    for name, flags_G in there.items():
        np.testing.assert_array_equal(here[name], flags_G[::-1])


def test_a_root_of_another_world_is_refused(small_world, source):
    with pytest.raises(InputError, match="world of these knobs"):
        memory_flags(source, write_scripts(replace(small_world, seed=4), "test"))
