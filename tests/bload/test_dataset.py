"""Reading blocks: the source must give what was asked for."""

import pytest
import torch

from bload import BlockDataset, make_plan
from bload.plan import filler_block


class Source:
    def __init__(self, extra_frames=0, extra_targets=0):
        self.lengths = [4, 3]
        self.extra_frames, self.extra_targets = extra_frames, extra_targets
        self.asked = []

    def read(self, sequence, first, length):
        self.asked.append((sequence, first, length))
        frames = torch.zeros(length + self.extra_frames, 2, dtype=torch.uint8)
        return frames, [sequence] * (length + self.extra_targets)


@pytest.mark.parametrize(
    ("frames", "targets", "sentence"),
    [
        (-1, 0, r"read\(\d, 0, \d\) gave \d frames and \d targets; it must give \d of each"),
        (1, 0, "it must give"),
        (0, -1, "it must give"),
        (0, 1, "it must give"),
        (-1, -1, "it must give"),
    ],
)
def test_too_few_or_too_many_frames_or_targets_are_an_error(frames, targets, sentence):
    dataset = BlockDataset(Source(frames, targets))
    with pytest.raises(ValueError, match=sentence):
        dataset[make_plan([4, 3], "bload").block(0)]


def test_a_source_is_asked_for_whole_segments_in_plain_numbers():
    source = Source()
    block = make_plan([4, 3], "bload", 7).block(0)
    sample = BlockDataset(source)[block]
    assert sorted(source.asked) == [(0, 0, 4), (1, 0, 3)]
    assert all(type(number) is int for call in source.asked for number in call)
    assert sample.block is block
    assert sample.frames_V.shape == (7, 2)
    assert list(sample.targets) == [0] * 4 + [1] * 3 or list(sample.targets) == [1] * 3 + [0] * 4


def test_fillers_read_one_frame_once():
    source = Source()
    dataset = BlockDataset(source)
    for _ in range(3):
        sample = dataset[filler_block(5)]
        assert sample.frames_V.shape == (0, 2)
        assert sample.frames_V.dtype == torch.uint8
        assert sample.targets == []
    assert source.asked == [(0, 0, 1)]
