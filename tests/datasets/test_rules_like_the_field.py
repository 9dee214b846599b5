"""The rules against an independent restatement of the field's parser, on random annotations."""

import copy

import numpy as np
import pytest

from datasets.annotations.read import filter_annotations
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, without_separators
from tests.datasets.field_parser import field_videos
from tests.datasets.random_annotations import random_annotations

SPLITS = ("train", "test")


def ours(objects, persons, split, small_boxes):
    videos = filter_annotations(objects, persons, split, small_boxes=small_boxes).videos
    return {
        video.name: [
            (
                frame.name,
                frame.person_box_4,
                [
                    (
                        without_separators(OBJECTS[frame.object_classes_M[row]]),
                        frame.object_boxes_M4[row],
                        [
                            without_separators(RELATIONS[relation])
                            for at, relation in frame.relations_G2
                            if at == row
                        ],
                    )
                    for row in range(len(frame.object_classes_M))
                ],
            )
            for frame in video.frames
        ]
        for video in videos
    }


@pytest.mark.parametrize("small_boxes", ["keep", "computed"])
@pytest.mark.parametrize("seed", range(150))
def test_frames_and_boxes_are_those_of_the_fields_parser(seed, small_boxes):
    objects, persons = random_annotations(np.random.default_rng(seed))
    for split in SPLITS:
        wanted = field_videos(copy.deepcopy(objects), persons, split, small_boxes)
        found = ours(objects, persons, split, small_boxes)
        assert list(found) == sorted(wanted)
        for video, frames in wanted.items():
            for (name, person, things), (our_name, our_person, our_things) in zip(
                frames, found[video], strict=True
            ):
                assert our_name == name
                np.testing.assert_array_equal(our_person, person.astype(np.float32))
                for thing, our_thing in zip(things, our_things, strict=True):
                    assert our_thing[0] == thing[0]
                    np.testing.assert_array_equal(our_thing[1], thing[1].astype(np.float32))
                    assert our_thing[2] == thing[2]


def test_the_random_annotations_hit_every_rule():
    lengths, objects_a_frame, dropped = set(), set(), dict.fromkeys(("seen", "small", "person"), 0)
    for seed in range(150):
        objects, persons = random_annotations(np.random.default_rng(seed))
        for split in SPLITS:
            annotations = filter_annotations(objects, persons, split, small_boxes="computed")
            counts = annotations.counts
            dropped["seen"] += counts.without_visible_object
            dropped["small"] += counts.with_small_objects_alone
            dropped["person"] += counts.without_person
            lengths |= {len(video.frames) for video in annotations.videos}
            lengths |= {0} if counts.short_videos else set()
            objects_a_frame |= {
                len(frame.object_classes_M)
                for video in annotations.videos
                for frame in video.frames
            }
    assert min(dropped.values()) > 100
    assert {0, 3, 4, 5} <= lengths
    assert {1, 2, 3} <= objects_a_frame
    assert max(objects_a_frame) >= 5


def test_order_of_labels_and_repeated_labels_stay():
    objects, _ = random_annotations(np.random.default_rng(3))
    repeated = [
        entry
        for entries in objects.values()
        for entry in entries
        if entry["visible"]
        and len(set(entry["spatial_relationship"])) < len(entry["spatial_relationship"])
    ]
    assert repeated  # so the comparison above covers them
