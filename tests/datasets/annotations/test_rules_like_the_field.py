"""The rules against an independent restatement of the field's parser, on random annotations."""

import numpy as np

from datasets.annotations.read import SPLITS, filter_annotations
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, without_separators
from tests.datasets.annotations.field_parser import field_videos
from tests.datasets.annotations.random_annotations import random_annotations

SEEDS = range(150)


def labels_of(frame: FrameTargets, row: int) -> list[str]:
    return [without_separators(RELATIONS[r]) for at, r in frame.relations_G2 if at == row]


def test_frames_boxes_and_labels_are_those_of_the_fields_parser():
    dropped, lengths, most, repeated, relations = np.zeros(3, int), set(), 0, 0, 0
    for seed in SEEDS:
        objects, persons = random_annotations(np.random.default_rng(seed))
        for split in SPLITS:
            for small_boxes in ("keep", "computed"):
                wanted = field_videos(objects, persons, split, small_boxes)
                found = filter_annotations(objects, persons, split, small_boxes=small_boxes)
                assert [video.name for video in found.videos] == sorted(wanted)
                for video in found.videos:
                    assert len(video.frames) == len(wanted[video.name])
                    for frame, theirs in zip(video.frames, wanted[video.name], strict=True):
                        assert_same(frame, *theirs)
                        most = max(most, len(theirs[2]))
                        relations += len(frame.relations_G2)
                        repeated += any(len({*said}) < len(said) for _, _, said in theirs[2])
                lengths |= {len(video.frames) for video in found.videos}
            counts = found.counts
            dropped += counts.without_visible_object, counts.without_person, 0
            dropped[2] += counts.with_small_objects_alone
    assert dropped.min() > 100  # so that every rule was hit, as were labels that repeat
    assert {3, 4, 5} <= lengths
    assert most >= 5
    assert repeated > 100
    assert relations > 10_000


def assert_same(frame: FrameTargets, name: str, person: np.ndarray, things: list) -> None:
    assert frame.name == name
    assert frame.person_box_4.tolist() == person.astype(np.float32).tolist()
    assert len(frame.object_classes_M) == len(things)
    for row, (object_class, corners, said) in enumerate(things):
        assert without_separators(OBJECTS[frame.object_classes_M[row]]) == object_class
        assert frame.object_boxes_M4[row].tolist() == corners.astype(np.float32).tolist()
        assert labels_of(frame, row) == said
