"""A plan refuses anything that cannot be trained."""

import pytest

from bload import Plan, make_plan
from bload.packing.plan import filler_block


def plan_with(**changes) -> Plan:
    good = 5, [4, 3, 2], [1, 2, 0], [0, 0, 0], [3, 2, 4], [0, 2, 3]
    names = "t_max", "sequence_lengths", "sequence", "first", "length", "offsets"
    return Plan(**(dict(zip(names, good, strict=True)) | changes))


def test_a_plan_answers_by_hand():
    plan = plan_with()
    assert (plan.num_blocks, plan.num_segments, plan.frames) == (2, 3, 9)
    assert (plan.placed, plan.processed, plan.padding, plan.deleted) == (9, 10, 1, 0)
    assert plan.utilisation == 0.9
    assert (plan.lower_bound, plan.lower_bound_padding) == (2, 1)
    assert plan.block_frames.tolist() == [5, 4]
    assert plan.block_of_segment().tolist() == [0, 0, 1]
    block = plan.block(0)
    assert (block.index, block.t_max, block.frames) == (0, 5, 5)
    assert block.starts.tolist() == [0, 3]
    assert block.sequence.tolist() == [1, 2]
    filler = filler_block(7)
    assert (filler.index, filler.frames, filler.t_max, len(filler.starts)) == (-1, 0, 7, 0)
    some = plan_with(length=[3, 2, 2], first=[0, 0, 1])
    assert (some.deleted, some.placed, some.padding) == (2, 7, 3)
    touching = plan_with(sequence=[0, 1, 0], first=[2, 0, 0], length=[2, 3, 2])
    assert touching.placed == 7


def test_a_wrong_plan_is_refused():
    for changes, words in [
        ({"sequence": [1, 1, 0], "length": [3, 1, 4], "first": [0, 2, 0]}, "twice"),
        ({"t_max": 4}, "block 0 takes 5 slots and has 4"),
        ({"offsets": [0, 1, 3]}, "block 1 takes 6 slots and has 5"),
        ({"length": [3, 2, 5]}, "segment 2 .* 0 to 5 of sequence 0, .* 4"),
        ({"first": [1, 0, 0]}, "segment 0 .* 1 to 4 of sequence 1, .* 3"),
        ({"length": [3, 0, 4]}, "segment 1 .* 0 to 0"),
        ({"sequence": [1, 3, 0]}, "names a sequence"),
        ({"offsets": [0, 2, 4]}, "offsets .* 0 to the 3 "),
        ({"offsets": [0, 2, 1, 3]}, "offsets .* decrease"),
        ({"length": [3, 2]}, r"firsts \(3\) and lengths \(2\) as segments \(3\)"),
    ]:
        with pytest.raises(ValueError, match=words):
            plan_with(**changes)
    with pytest.raises(IndexError, match=r"block 2 .* 2 blocks"):
        plan_with().block(2)


def test_a_plan_cannot_be_changed():
    plan = make_plan([3, 4, 5], "bload")
    with pytest.raises(ValueError, match="read-only"):
        plan.sequence[0] = 2
