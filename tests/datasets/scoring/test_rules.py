"""Every rule of the protocol on a frame small enough to count by hand.

P pairs, M objects, G ground-truth triplets, R = 26 relations: 0-2 attention, 3-8 spatial,
9-25 contacting.
"""

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS, KS, NEVER, triplet_ranks

PERSON = (0, 0, 99, 99)
CUP, CHAIR = 11, 8
CUP_BOX, CHAIR_BOX = (200, 0, 299, 99), (200, 200, 299, 299)


def pair(relations, person=1.0, thing=1.0, cls=CUP, box=CUP_BOX, person_box=PERSON):
    """One predicted pair; relations not named score 0.01."""
    scores_R = np.full(26, 0.01)
    for relation, score in relations.items():
        scores_R[relation] = score
    return person_box, box, cls, person, thing, scores_R


def ranks(pairs, labels, objects=((CUP, CUP_BOX),), person_box=PERSON, convention="inclusive"):
    """Ranks of the frame's labels, a row per constraint."""
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
        person_box_4=np.array(person_box, np.float32),
        object_boxes_M4=np.array([box for _, box in objects], np.float32),
        object_classes_M=np.array([cls for cls, _ in objects]),
        relations_G2=np.array(labels),
    )
    return triplet_ranks([prediction], [target], convention)


def found(*frame, **options):
    """Flags of the frame's labels, as ``found[constraint][k]`` lists."""
    ranks_SG = ranks(*frame, **options)
    return {c: {k: (ranks_SG[s] < k).tolist() for k in KS} for s, c in enumerate(CONSTRAINTS)}


def test_a_frame_without_predictions_finds_nothing():
    flags = found([], [(0, 0), (0, 4)])
    assert set(flags) == {"with", "semi", "no"}
    assert all(row == {k: [False, False] for k in (10, 20, 50, 100)} for row in flags.values())


def test_with_keeps_the_best_relation_of_each_group():
    # 1 beats 0 in attention, 4 beats 3 in spatial, 9 beats 10 in contacting, although 10 (0.6)
    # scores more than 4 (0.5): groups are cut apart, they only compete for ranks.
    cup = pair({0: 0.3, 1: 0.4, 3: 0.45, 4: 0.5, 9: 0.7, 10: 0.6})
    flags = found([cup], [(0, 0), (0, 1), (0, 3), (0, 4), (0, 9), (0, 10)])
    assert flags["with"][10] == [False, True, False, True, True, False]
    assert flags["no"][10] == [True] * 6  # 26 triplets of which these are the top six


def test_semi_takes_the_best_attention_and_all_others_above_threshold():
    # Attention 0.4 is below 0.9 and in as the best; of the rest only scores above 0.9 are in, two
    # of one group if need be; exactly 0.9 is out. The person's score 0.1 has no say in that.
    cup = pair({0: 0.4, 1: 0.3, 3: 0.95, 4: 0.91, 9: 0.9, 10: 0.5}, person=0.1)
    flags = found([cup], [(0, 0), (0, 1), (0, 3), (0, 4), (0, 9), (0, 10)])
    assert flags["semi"][10] == [True, False, True, True, False, False]


def test_all_groups_compete_in_one_list():
    # Nine cups fill ranks 0-26 under "with" (9 x 3 triplets of scores 0.9, 0.8, 0.7); the chair's
    # three triplets at 0.75 come after the 9 + 9 above them, so they are ranks 18, 19, 20.
    cups = [pair({0: 0.9, 3: 0.8, 9: 0.7})] * 9
    chair = pair({0: 0.75, 3: 0.75, 9: 0.75}, cls=CHAIR, box=CHAIR_BOX)
    labels = [(0, 0), (0, 3), (0, 9)]
    flags = found([*cups, chair], labels, [(CHAIR, CHAIR_BOX)])
    assert flags["with"][10] == [False, False, False]
    assert flags["with"][20] == [True, True, False]
    assert flags["with"][50] == [True, True, True]


def test_the_score_is_the_product_of_three():
    # Ten chairs' attention at 0.5 x 1 x 1 go before the cup's 0.9 x 0.9 x 0.6 = 0.486 and after its
    # 0.9 x 0.9 x 0.7 = 0.567: one factor less and the first would be found within 10 too.
    chairs = [pair({0: 0.5}, cls=CHAIR, box=CHAIR_BOX)] * 10
    cup = pair({0: 0.6, 3: 0.7}, person=0.9, thing=0.9)
    flags = found([*chairs, cup], [(0, 0), (0, 3)])
    assert flags["with"][10] == [False, True]
    assert flags["with"][20] == [True, True]


def test_duplicates_use_up_ranks():
    # Ten equal cups: their attention triplets alone fill the first ten ranks.
    cups = [pair({0: 0.9, 3: 0.5})] * 10
    flags = found(cups, [(0, 0), (0, 3)])
    assert flags["with"][10] == [True, False]
    assert flags["with"][20] == [True, True]


def test_one_prediction_finds_every_copy_of_a_label():
    # The label is written twice for one cup, and once for a second cup whose box overlaps enough.
    near = (210, 0, 309, 99)  # 90 of 110 columns shared: IoU 0.818
    flags = found([pair({4: 0.9})], [(0, 4), (0, 4), (1, 4)], [(CUP, CUP_BOX), (CUP, near)])
    assert flags["with"][10] == [True, True, True]


def test_several_predictions_find_one_label_once():
    # The second cup names the relation that the first one misses; the best finder sets the rank.
    flags = found([pair({3: 0.9}), pair({4: 0.8}), pair({4: 0.7})], [(0, 4)])
    assert flags["with"][10] == [True]


def test_subject_and_object_do_not_trade_places():
    # Spatial triplets are (object, relation, person). A pair whose two boxes are exchanged finds
    # neither a spatial label nor any other, though the same two boxes are in it.
    swapped = pair({0: 0.9, 3: 0.9, 9: 0.9}, box=PERSON, person_box=CUP_BOX)
    flags = found([swapped], [(0, 0), (0, 3), (0, 9)])
    assert flags["no"][100] == [False, False, False]


def test_class_and_both_boxes_must_fit():
    # Columns shared: 0-66 of 0-99 is 67 % (found), 0-49 is 50 % (found, >=), 0-48 is 49 %.
    for candidate, expected in (
        (pair({0: 0.9}, person_box=(0, 0, 66, 99)), True),
        (pair({0: 0.9}, person_box=(0, 0, 49, 99)), True),
        (pair({0: 0.9}, person_box=(0, 0, 48, 99)), False),
        (pair({0: 0.9}, box=(200, 0, 266, 99)), True),
        (pair({0: 0.9}, box=(200, 0, 249, 99)), True),
        (pair({0: 0.9}, box=(200, 0, 248, 99)), False),
        (pair({0: 0.9}, box=CHAIR_BOX), False),
        (pair({0: 0.9}, cls=CHAIR), False),
    ):
        assert found([candidate], [(0, 0)])["with"][10] == [expected]


def test_the_convention_decides_a_close_call():
    # 50 of 100 columns inclusive is 0.5; 49 of 99 continuous is below.
    edge = [pair({0: 0.9}, person_box=(0, 0, 49, 99))]
    assert found(edge, [(0, 0)], convention="inclusive")["with"][10] == [True]
    assert found(edge, [(0, 0)], convention="continuous")["with"][10] == [False]


def test_no_constraint_lists_the_100_best_products_and_no_more():
    # Four chairs give 4 x 26 = 104 triplets at 0.5. A cup's attention at 0.4 comes after: under
    # "with" it is rank 12 of 15, under "no" it is beyond the end of the list.
    chairs = [pair(dict.fromkeys(range(26), 0.5), cls=CHAIR, box=CHAIR_BOX)] * 4
    flags = found([*chairs, pair({0: 0.4})], [(0, 0)])
    assert flags["with"][10] == [False]
    assert flags["with"][20] == [True]
    assert flags["no"][100] == [False]


def test_ranks_say_the_place_or_never():
    # As above, the cup's three labels: under "with" the chairs' 4 x 3 triplets of 0.5 are ahead of
    # 0.4, and 0.01 comes last; under "semi" only 4 chairs' attention is; under "no" the list ends.
    chairs = [pair(dict.fromkeys(range(26), 0.5), cls=CHAIR, box=CHAIR_BOX)] * 4
    ranks_SG = ranks([*chairs, pair({0: 0.4})], [(0, 0), (0, 3), (0, 1)])
    assert ranks_SG.tolist() == [[12, 13, NEVER], [4, NEVER, NEVER], [NEVER, NEVER, NEVER]]
    assert (ranks([], [(0, 0), (0, 3), (0, 1)]) == NEVER).all()


def test_no_constraint_may_be_below_with_at_small_k():
    # The chair's ten strong contacting relations are one triplet under "with", ten under "no".
    chair = pair(dict.fromkeys(range(9, 19), 0.9), cls=CHAIR, box=CHAIR_BOX)
    flags = found([chair, pair({0: 0.5})], [(0, 0)])
    assert flags["with"][10] == [True]
    assert flags["no"][10] == [False]


def test_ties_go_to_the_earlier_pair_then_to_the_lower_relation():
    # All scores equal: the list under "no" runs through the first pair's 26 relations, then on.
    level = dict.fromkeys(range(26), 0.5)
    chair = pair(level, cls=CHAIR, box=CHAIR_BOX)
    first = found([pair(level), chair], [(0, 9), (0, 10)])["no"]
    second = found([chair, pair(level)], [(0, 9), (0, 10)])["no"]
    assert first[10] == [True, False]
    assert first[20] == [True, True]
    assert second[20] == [False, False]  # ranks 35 and 36
    assert second[50] == [True, True]


def fields(**changes):
    """Fields of a valid prediction of two pairs, some changed."""
    plain = {
        "person_boxes_P4": np.array([PERSON, PERSON], np.float32),
        "object_boxes_P4": np.array([CUP_BOX, CHAIR_BOX], np.float32),
        "object_classes_P": np.array([CUP, CHAIR]),
        "person_scores_P": np.array([0.5, 0.5], np.float32),
        "object_scores_P": np.array([0.5, 0.5], np.float32),
        "relation_scores_PR": np.full((2, 26), 0.1, np.float32),
    }
    return plain | changes


def test_bad_predictions_are_refused_with_field_and_value():
    FramePrediction(**fields())
    for changes, sentence in (
        ({"person_scores_P": np.array([0.5, np.nan])}, "person_scores_P holds nan but scores are"),
        ({"object_scores_P": np.array([0.5, -0.1])}, "object_scores_P holds -0.1 but scores are"),
        ({"relation_scores_PR": np.full((2, 26), 3.2)}, "holds 3.2 but .* apply the softmax"),
        ({"relation_scores_PR": np.full((2, 25), 0.1)}, r"has shape \(2, 25\) .*\(2, 26\)"),
        ({"object_classes_P": np.array([CUP, 37])}, "holds 37 but object classes are 1..36"),
        ({"object_classes_P": np.array([0, CUP])}, "holds 0 but object classes are 1..36"),
        ({"object_classes_P": np.array([1.0, 2.0])}, "is float64 but must hold integers"),
        (
            {"object_boxes_P4": np.array([CUP_BOX, (9, 0, 8, 9)], np.float32)},
            r"object_boxes_P4 row 1 is \[9.0, 0.0, 8.0, 9.0\] but .* x2 >= x1",
        ),
        (
            {"person_boxes_P4": np.array([PERSON, (0, 0, np.inf, 9)], np.float32)},
            "person_boxes_P4 row 1 .* finite",
        ),
        ({"person_boxes_P4": np.zeros((2, 4), np.int64)}, "is int64 but must be a floating-point"),
        ({"person_scores_P": [0.5, 0.5]}, "is a list but must be a numpy array"),
        ({"object_classes_P": [CUP, CHAIR]}, "must be a numpy array of shape"),
    ):
        with pytest.raises(InputError, match=sentence):
            FramePrediction(**fields(**changes))


def test_bad_ground_truth_is_refused_with_field_and_value():
    for labels, objects, sentence in (
        (np.zeros((0, 2), int), ((CUP, CUP_BOX),), "no ground-truth relation"),
        ([(0, 26)], ((CUP, CUP_BOX),), r"relations 0..25 .*\[0, 26\]"),
        ([(1, 0)], ((CUP, CUP_BOX),), "object rows 0..0"),
        ([(0, -1)], ((CUP, CUP_BOX),), "relations 0..25"),
        ([(0, 0)], ((0, CUP_BOX),), "holds 0 but object classes are 1..36"),
        ([(0, 0)], ((CUP, (5, 0, 4, 9)),), "object_boxes_M4 row 0"),
        ([0, 0], ((CUP, CUP_BOX),), r"\(G, 2\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            ranks([], labels, objects)
