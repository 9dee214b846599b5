"""A plan refuses what cannot be trained."""

import numpy as np
import pytest

from bload import Plan, make_plan
from bload.plan import filler_block

GOOD = {
    "t_max": 5,
    "sequence_lengths": [4, 3, 2],
    "sequence": [1, 2, 0],
    "first": [0, 0, 0],
    "length": [3, 2, 4],
    "offsets": [0, 2, 3],
}


def plan_with(**changes) -> Plan:
    return Plan(**{k: np.array(v) if k != "t_max" else v for k, v in (GOOD | changes).items()})


def test_a_plan_answers_by_hand():
    plan = plan_with()
    assert (plan.blocks, plan.segments, plan.sequences) == (2, 3, 3)
    assert (plan.frames, plan.placed, plan.processed, plan.padding, plan.deleted) == (
        9,
        9,
        10,
        1,
        0,
    )
    assert plan.utilisation == 0.9
    assert (plan.lower_bound, plan.lower_bound_padding) == (2, 1)
    np.testing.assert_array_equal(plan.block_frames, [5, 4])
    np.testing.assert_array_equal(plan.block_of_segment(), [0, 0, 1])
    block = plan.block(0)
    assert (block.index, block.t_max, block.frames) == (0, 5, 5)
    np.testing.assert_array_equal(block.starts, [0, 3])
    np.testing.assert_array_equal(block.sequence, [1, 2])


def test_deleted_frames_are_those_in_no_block():
    plan = plan_with(length=[3, 2, 2], first=[0, 0, 1])
    assert (plan.deleted, plan.placed, plan.padding) == (2, 7, 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sequence": [1, 1, 0], "length": [3, 1, 4], "first": [0, 2, 0]}, "a frame stands twice"),
        ({"sequence": [0, 0, 0], "first": [0, 1, 2], "length": [2, 2, 2]}, "a frame stands twice"),
        ({"sequence": [0, 1, 0], "first": [2, 0, 0], "length": [2, 2, 3]}, "a frame stands twice"),
        ({"t_max": 4}, "block 0 holds 5 frames; t_max is 4"),
        ({"offsets": [0, 1, 3]}, "block 1 holds 6 frames; t_max is 5"),
        ({"length": [3, 2, 5]}, "segment 2 takes frames 0 to 5 of sequence 0, which has 4"),
        ({"first": [1, 0, 0]}, "segment 0 takes frames 1 to 4 of sequence 1, which has 3"),
        ({"first": [-1, 0, 0]}, "segment 0 takes frames -1 to 2"),
        ({"length": [3, 0, 4]}, "segment 1 takes frames 0 to 0"),
        ({"length": [3, -1, 4]}, "segment 1 takes frames 0 to -1"),
        ({"sequence": [1, 3, 0]}, "names a sequence that the data set does not have"),
        ({"sequence": [1, -1, 0]}, "names a sequence that the data set does not have"),
        ({"offsets": [0, 2]}, "offsets must run from 0 to the 3 segments"),
        ({"offsets": [1, 2, 3]}, "offsets must run from 0 to the 3 segments"),
        ({"offsets": [0, 2, 4]}, "offsets must run from 0 to the 3 segments"),
        ({"offsets": []}, "offsets must run from 0 to the 3 segments"),
        ({"offsets": [0, 2, 1, 3]}, "offsets must not decrease"),
        ({"length": [3, 2]}, "a plan needs as many firsts"),
        ({"first": [0]}, "a plan needs as many firsts"),
    ],
)
def test_a_wrong_plan_is_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        plan_with(**changes)


def test_segments_that_touch_are_not_an_overlap():
    assert plan_with(sequence=[0, 1, 0], first=[2, 0, 0], length=[2, 3, 2]).placed == 7


@pytest.mark.parametrize("index", [-1, 2, 10])
def test_a_block_outside_the_plan_is_an_index_error(index):
    with pytest.raises(IndexError, match="of a plan of 2 blocks"):
        plan_with().block(index)


def test_a_plan_cannot_be_changed():
    plan = make_plan([3, 4, 5], "bload")
    with pytest.raises(ValueError, match="read-only"):
        plan.sequence[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        plan.block(0).length[0] = 2
    with pytest.raises(AttributeError):
        plan.t_max = 3


def test_a_filler_is_all_padding():
    filler = filler_block(7)
    assert (filler.index, filler.frames, filler.t_max, len(filler.starts)) == (-1, 0, 7, 0)
