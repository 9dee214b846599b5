"""The measure against a slow restatement of its protocol, over random frames.

The restatement below follows the text of the protocol with loops and lists and shares nothing with
the code it checks.
"""

from itertools import product

import numpy as np
import pytest

from datasets.scoring.ranking import CONSTRAINTS, KS, top_triplets, triplet_ranks
from datasets.scoring.recall import RecallMeter
from tests.datasets.scoring.drawing import draw_frame, tied


def group_of(relation):
    return "attention" if relation < 3 else "spatial" if relation < 9 else "contacting"


def triplet(relation, person, thing):
    """Subject, relation, object: spatial relations go from the object to the person."""
    if group_of(relation) == "spatial":
        return thing, relation, person
    return person, relation, thing


def slow_iou(a, b, iou):
    border = 1.0 if iou == "inclusive" else 0.0
    width = min(a[2], b[2]) - max(a[0], b[0]) + border
    height = min(a[3], b[3]) - max(a[1], b[1]) + border
    if width <= 0 or height <= 0:
        return 0.0
    area_a = (a[2] - a[0] + border) * (a[3] - a[1] + border)
    area_b = (b[2] - b[0] + border) * (b[3] - b[1] + border)
    return width * height / (area_a + area_b - width * height)


def slow_list(prediction, constraint):
    """The frame's triplets as (score, subject, relation, object), best first."""
    listed = []
    for p in range(len(prediction)):
        person = (1, prediction.person_boxes_P4[p].tolist())
        thing = (int(prediction.object_classes_P[p]), prediction.object_boxes_P4[p].tolist())
        pair_score = float(prediction.person_scores_P[p]) * float(prediction.object_scores_P[p])
        scores = prediction.relation_scores_PR[p].tolist()
        for relation, score in enumerate(scores):
            group = [r for r in range(26) if group_of(r) == group_of(relation)]
            best = score == max(scores[r] for r in group)
            if constraint == "with":
                kept = best
            elif constraint == "semi":
                kept = best if group_of(relation) == "attention" else score > 0.9
            else:
                kept = True
            if kept:
                listed.append((pair_score * score, *triplet(relation, person, thing)))
    listed.sort(key=lambda entry: -entry[0])
    return listed[:100]


def slow_ranks(listed, target, iou):
    """For each label the place of the first triplet that finds it, 1000 if none does."""
    person, places = (1, target.person_box_4.tolist()), []
    for m, relation in target.relations_G2.tolist():
        thing = (int(target.object_classes_M[m]), target.object_boxes_M4[m].tolist())
        subject, _, other = triplet(relation, person, thing)
        finders = (
            place
            for place, (_, s, r, o) in enumerate(listed)
            if r == relation
            and s[0] == subject[0]
            and o[0] == other[0]
            and slow_iou(s[1], subject[1], iou) >= 0.5
            and slow_iou(o[1], other[1], iou) >= 0.5
        )
        places.append(next(finders, 1000))
    return np.array(places)


def test_found_triplets_are_those_of_the_protocol():
    for frames, pairs, iou in (
        (200, (0, 1, 2, 3, 5), "inclusive"),  # sparse: lists shorter than K, empty frames
        (80, (0, 1, 4, 12, 30), "continuous"),
        (5, (100,), "inclusive"),  # crowded
    ):
        rng = np.random.default_rng(frames)
        drawn = [draw_frame(rng, f"{i:05d}", int(rng.choice(pairs))) for i in range(frames)]
        meter, seen = RecallMeter(iou), 0
        ranks_SG = meter.update(*zip(*drawn, strict=True))
        for ranks_G, constraint in zip(ranks_SG, CONSTRAINTS, strict=True):
            slow = [slow_ranks(slow_list(p, constraint), t, iou) for p, t in drawn]
            for k in KS:
                assert ((ranks_G < k) == (np.concatenate(slow) < k)).all()
                slow_recall = np.mean([np.mean(places < k) for places in slow])
                assert meter.recall(constraint, k) == pytest.approx(slow_recall, abs=1e-9)
                seen += np.sum(np.concatenate(slow) < k)
        assert seen > frames  # the test is not about misses alone


def test_ties_have_one_order():
    # By pair, then by relation, which is what a stable sort of the list as written gives.
    rng = np.random.default_rng(6)
    drawn = [draw_frame(rng, f"{i}", int(rng.integers(31))) for i in range(70)]
    drawn = [(tied(prediction, rng), target) for prediction, target in drawn]
    ranks_SG = triplet_ranks(*zip(*drawn, strict=True), "inclusive")
    for ranks_G, constraint in zip(ranks_SG[1:], CONSTRAINTS[1:], strict=True):
        slow = [slow_ranks(slow_list(p, constraint), t, "inclusive") for p, t in drawn]
        assert (np.minimum(ranks_G, 1000) == np.concatenate(slow)).all()


def test_the_triplets_shown_are_those_that_the_ranks_count():
    """A true triplet ranks before K exactly when one of the first K of the list finds it."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        prediction, target = draw_frame(rng, "v.mp4/000001.png", 12)
        prediction = tied(prediction, rng)
        ranks_SG = triplet_ranks([prediction], [target], "inclusive")
        for (row, constraint), k in product(enumerate(CONSTRAINTS), (1, 8, 20, 100)):
            listed = top_triplets(prediction, target, constraint, k, "inclusive")
            pair_K, relation_K, score_K, hit_K = listed
            assert (np.diff(score_K) <= 0).all()
            assert len(pair_K) == len(relation_K) <= (min(k, 36) if constraint == "with" else k)
            classes_K = prediction.object_classes_P[pair_K]
            named = set(zip(classes_K[hit_K].tolist(), relation_K[hit_K].tolist(), strict=True))
            row_N, relation_N = target.relations_G2[ranks_SG[row] < k].T
            classes_N = target.object_classes_M[row_N]
            assert named == set(zip(classes_N.tolist(), relation_N.tolist(), strict=True))
