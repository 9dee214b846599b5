"""What is drawn into the frames of a video: the objects of a good score, each once."""

import numpy as np

from datasets.annotations.vocabulary import OBJECTS, RELATIONS, object_index
from datasets.scoring.prediction import FramePrediction
from experiments.annotated import (
    MOST,
    PANEL,
    SIZE_HW,
    annotate,
    highest_threshold,
    pairs_shown,
    relations_in_words,
)

BLUE, ORANGE = (21, 101, 192), (194, 65, 12)


def prediction_of(*pairs, **relations):
    """A frame's prediction of pairs (object, box, score), all with these relations."""
    score_R = np.array([relations.get(name, 0) for name in RELATIONS], np.float32)
    return FramePrediction(
        person_boxes_P4=np.array([[10, 10, 30, 50]] * len(pairs), np.float32).reshape(-1, 4),
        object_boxes_P4=np.array([box for _, box, _ in pairs], np.float32).reshape(-1, 4),
        object_classes_P=np.array([object_index(name) for name, _, _ in pairs], np.int64),
        person_scores_P=np.ones(len(pairs), np.float32),
        object_scores_P=np.array([score for _, _, score in pairs], np.float32),
        relation_scores_PR=np.tile(score_R, (len(pairs), 1)),
    )


def test_every_object_is_shown_once_and_the_best_first():
    chair = ("chair", (40, 10, 60, 50))
    prediction = prediction_of(
        (*chair, 0.6),
        ("bed", (40, 10, 60, 50), 0.7),
        (*chair, 0.9),
        ("chair", (70, 10, 90, 50), 0.5),
        ("door", (0, 0, 9, 9), 0.4),
    )
    assert pairs_shown(prediction, 0.5) == [2, 1, 3]
    assert pairs_shown(prediction, 0.95) == []
    many = prediction_of(*((name, (0, 0, 9, 9), 1) for name in OBJECTS[2:15]))
    assert len(pairs_shown(many, 0.5)) == MOST


def test_relations_are_the_best_of_their_group_and_read_from_subject_to_object():
    scores = {"looking_at": 0.4, "unsure": 0.3, "behind": 0.6, "above": 0.7, "holding": 0.9}
    prediction = prediction_of(("sofa/couch", (0, 0, 9, 9), 1), **scores)
    assert relations_in_words(prediction, 0, 0.5) == [
        "sofa/couch - above - person  0.70",
        "person - holding - sofa/couch  0.90",
    ]
    assert relations_in_words(prediction, 0, 0.4)[0] == "person - looking at - sofa/couch  0.40"


def test_boxes_lie_where_they_are_in_the_enlarged_picture():
    picture_hwC = np.full((60, 100, 3), 240, np.uint8)
    prediction = prediction_of(("chair", (40, 20, 60, 50), 0.9), looking_at=0.9)
    drawn = annotate(picture_hwC, prediction, 0.5, "frame 1")
    assert drawn.shape == (SIZE_HW[0], 900 + PANEL, 3)
    for x, y, colour in ((10, 30, BLUE), (30, 30, BLUE), (40, 40, ORANGE), (50, 50, ORANGE)):
        around = drawn[9 * y - 4 : 9 * y + 5, 9 * x - 4 : 9 * x + 5].reshape(-1, 3)
        assert (around == colour).all(-1).any(), (x, y)
    assert (drawn[9 * 35, 9 * 50] == 240).all()  # inside of the box
    nothing = annotate(picture_hwC, prediction, 0.95, "frame 1")
    assert (nothing[:, :900] == 240).all()


def test_the_highest_threshold_is_the_last_at_which_a_relation_is_drawn():
    pairs = ("chair", (0, 0, 9, 9), 0.5), ("door", (20, 0, 29, 9), 0.25)
    for scores, highest in (({"behind": 0.375}, 0.375), ({"behind": 1.0}, 0.5), ({}, 0)):
        prediction = prediction_of(*pairs, **scores)
        assert highest_threshold(prediction) == highest
        assert any(relations_in_words(prediction, pair, highest) for pair in (0, 1))
        shown = pairs_shown(prediction, highest + 0.01)
        assert not any(relations_in_words(prediction, pair, highest + 0.01) for pair in shown)
    assert highest_threshold(prediction_of()) == 0


def test_pictures_of_any_shape_get_even_sides():
    for hw in ((64, 64), (1, 500), (700, 3), (1080, 1920), (333, 211)):
        drawn = annotate(np.zeros((*hw, 3), np.uint8), prediction_of(), 0.5, "frame")
        assert drawn.shape[0] == SIZE_HW[0]
        assert drawn.shape[1] % 2 == 0
