"""The rules against an independent restatement of the field's parser, on random annotations."""

from itertools import product

import numpy as np

from datasets.annotations.read import PUBLISHED_SPLITS, filter_annotations
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, without_separators
from tests.datasets.annotations.field_parser import field_videos
from tests.datasets.annotations.random_annotations import random_annotations

SEEDS = range(150)


def labels_of(frame: FrameTargets, row: int) -> list[str]:
    return [without_separators(RELATIONS[r]) for at, r in frame.relations_G2 if at == row]


def test_frames_boxes_and_labels_are_those_of_the_fields_parser():
    dropped, relations, repeated = np.zeros(5, int), 0, 0
    for seed in SEEDS:
        objects, persons = random_annotations(np.random.default_rng(seed))
        for split, small_boxes in product(PUBLISHED_SPLITS, ("keep", "computed")):
            wanted = field_videos(objects, persons, split, small_boxes)
            found = filter_annotations(objects, persons, split, small_boxes)
            assert not found.problems
            assert [video.name for video in found.videos] == sorted(wanted)
            for video in found.videos:
                for frame, theirs in zip(video.frames, wanted[video.name], strict=True):
                    assert_same(frame, *theirs)
                    relations += len(frame.relations_G2)
                    repeated += any(len({*said}) < len(said) for _, _, said in theirs[2])
            if small_boxes == "computed":
                dropped -= np.diff([step.frames for step in found.remaining])
    # Every rule was hit, as were labels that repeat.
    assert min(dropped[[0, 1, 2, 4]]) > 100
    assert repeated > 100
    assert relations > 10_000


def assert_same(frame: FrameTargets, name: str, person: np.ndarray, things: list) -> None:
    assert (frame.name, frame.size_hw) == (name, (270, 480))
    assert frame.person_box_4.tolist() == person.astype(np.float32).tolist()
    assert len(frame.object_classes_M) == len(things)
    for row, (object_class, corners, said) in enumerate(things):
        assert without_separators(OBJECTS[frame.object_classes_M[row]]) == object_class
        assert frame.object_boxes_M4.dtype == np.float32
        assert frame.object_boxes_M4[row].tolist() == corners.astype(np.float32).tolist()
        assert labels_of(frame, row) == said
