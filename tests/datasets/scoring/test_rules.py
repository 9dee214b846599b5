"""Rules of the protocol at their exact borders, on a frame small enough to count by hand.

P pairs, M objects, G ground-truth triplets, R = 26 relations: 0-2 attention, 3-8 spatial,
9-25 contacting.
"""

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS, NEVER, triplet_ranks

PERSON = (0, 0, 99, 99)
CUP, CHAIR = 11, 8
CUP_BOX, CHAIR_BOX = (200, 0, 299, 99), (200, 200, 299, 299)


def pair(relations, person=1.0, thing=1.0, cls=CUP, box=CUP_BOX, person_box=PERSON):
    """One predicted pair; relations not named score 0.01."""
    scores_R = np.full(26, 0.01)
    for relation, score in relations.items():
        scores_R[relation] = score
    return person_box, box, cls, person, thing, scores_R


def ranks(pairs, labels, objects=((CUP, CUP_BOX),), iou="inclusive"):
    """Constraint -> ranks of the frame's labels."""
    columns = list(zip(*pairs, strict=True)) if pairs else [[]] * 6
    prediction = FramePrediction(
        person_boxes_P4=np.array(columns[0], np.float32).reshape(-1, 4),
        object_boxes_P4=np.array(columns[1], np.float32).reshape(-1, 4),
        object_classes_P=np.array(columns[2], np.int64),
        person_scores_P=np.array(columns[3], np.float64),
        object_scores_P=np.array(columns[4], np.float64),
        relation_scores_PR=np.array(columns[5], np.float64).reshape(-1, 26),
    )
    target = FrameTargets(
        name="the frame",
        size_hw=(300, 300),
        person_box_4=np.array(PERSON, np.float32),
        object_boxes_M4=np.array([box for _, box in objects], np.float32),
        object_classes_M=np.array([cls for cls, _ in objects]),
        relations_G2=np.array(labels),
    )
    ranks_SG = triplet_ranks([prediction], [target], iou)
    return dict(zip(CONSTRAINTS, ranks_SG.tolist(), strict=True))


def test_semi_takes_the_best_attention_and_all_others_above_threshold():
    # Attention 0.4 is below 0.9 and in as the best; of the rest only scores above 0.9 are in, two
    # of one group if need be; exactly 0.9 is out. The person's score 0.1 has no say in that.
    cup = pair({0: 0.4, 1: 0.3, 3: 0.95, 4: 0.91, 9: 0.9, 10: 0.5}, person=0.1)
    places = ranks([cup], [(0, 0), (0, 1), (0, 3), (0, 4), (0, 9), (0, 10)])
    assert places["semi"] == [2, NEVER, 0, 1, NEVER, NEVER]


def test_class_and_both_boxes_must_fit():
    # Columns shared: 0-66 of 0-99 is 67 % (found), 0-49 is 50 % (found, >=), 0-48 is 49 %.
    for candidate, found in (
        (pair({0: 0.9}, person_box=(0, 0, 49, 99)), True),
        (pair({0: 0.9}, person_box=(0, 0, 48, 99)), False),
        (pair({0: 0.9}, box=(200, 0, 249, 99)), True),
        (pair({0: 0.9}, box=(200, 0, 248, 99)), False),
        (pair({0: 0.9}, box=CHAIR_BOX), False),
        (pair({0: 0.9}, cls=CHAIR), False),
    ):
        assert ranks([candidate], [(0, 0)])["with"] == [0 if found else NEVER]
    # 50 of 100 columns inclusive is 0.5; 49 of 99 continuous is below.
    edge = [pair({0: 0.9}, person_box=(0, 0, 49, 99))]
    assert ranks(edge, [(0, 0)], iou="continuous")["with"] == [NEVER]


def test_bad_predictions_are_refused_with_field_and_value():
    boxes_24 = np.array([CUP_BOX, CHAIR_BOX], np.float32)
    half_2, scores_2R = np.full(2, 0.5, np.float32), np.full((2, 26), 0.1, np.float32)
    fields = {"person_boxes_P4": boxes_24, "object_boxes_P4": boxes_24}
    fields |= {"object_classes_P": np.array([CUP, CHAIR]), "relation_scores_PR": scores_2R}
    fields |= {"person_scores_P": half_2, "object_scores_P": half_2}
    FramePrediction(**fields)
    for name, value, sentence in (
        ("person_scores_P", np.array([0.5, np.nan]), "holds nan"),
        ("relation_scores_PR", np.full((2, 26), 1.01), "holds 1.01"),
        ("relation_scores_PR", np.full((2, 25), 0.1), r"\(2, 25\) .*\(2, 26\)"),
        ("object_classes_P", np.array([CUP, 37]), "holds 37 .*1..36"),
        ("object_boxes_P4", boxes_24 * [[1, 1, 1, 1], [1, 1, 0, 1]], r"row 1 is \[200.0, 200.0, 0"),
        ("person_boxes_P4", np.zeros((2, 4), np.int64), "is int64"),
    ):
        with pytest.raises(InputError, match=f"{name} .*{sentence}"):
            FramePrediction(**fields | {name: value})


def test_an_inverted_true_box_is_never_found():
    objects = (CUP, CUP_BOX), (CUP, (250, 50, 240, 60))
    assert ranks([pair({0: 0.9})] * 2, [(0, 0), (1, 0)], objects)["with"] == [0, NEVER]
