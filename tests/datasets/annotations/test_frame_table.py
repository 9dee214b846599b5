"""Scene graphs of any origin are checked when they are put into the table."""

from dataclasses import replace

import numpy as np
import pytest

from bload import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import read_annotations


def test_a_frame_that_cannot_be_is_named(small_root):
    video = read_annotations(small_root, "test").videos[0]
    FrameTable.from_videos([video])
    frame, objects = video.frames[1], len(video.frames[1].object_classes_M)
    for changes, words in (
        ({"object_classes_M": frame.object_classes_M * 0}, r"an object class outside 1\.\.36"),
        ({"object_classes_M": frame.object_classes_M + 36}, "an object class"),
        ({"relations_G2": np.array([[objects, 0]])}, "a relation of no object"),
        ({"relations_G2": np.array([[0, 26]])}, "a relation of no object or of no class"),
        ({"object_boxes_M4": frame.object_boxes_M4 * np.nan}, "an object box not finite"),
        ({"person_box_4": frame.person_box_4 + np.inf}, "a person box not finite"),
    ):
        wrong = replace(video, frames=(video.frames[0], replace(frame, **changes)))
        with pytest.raises(InputError, match=f"^{frame.name} has {words}"):
            FrameTable.from_videos([wrong])
