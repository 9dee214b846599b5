"""The matcher against brute force.

L layers, F frames, N queries, M objects.
"""

from itertools import permutations

import numpy as np
import pytest
import torch
from torchvision.ops import generalized_box_iou

from bload.errors import InputError
from models import to_tensors
from models.boxes import corners, generalized_iou
from models.criterion import select
from models.matcher import match, matching_cost


def predictions_for(random_outputs, seed: int, layers: int, frames: int, queries: int):
    outputs = random_outputs(seed, layers, 1, frames, queries)
    return select(outputs, torch.ones(1, frames, dtype=torch.bool), frames)


@pytest.mark.parametrize("seed", range(5))
def test_matches_cost_least_among_all_assignments(random_outputs, annotate, seed):
    layers, frames, queries = 2, 4, 5
    predictions = predictions_for(random_outputs, seed, layers, frames, queries)
    targets = to_tensors(annotate(np.random.default_rng(seed), frames, most=4))
    cost_LFNM = matching_cost(predictions, targets)
    matches = match(predictions, targets)
    for layer in range(layers):
        for frame, count in enumerate(targets.objects):
            here = matches.frame_P == frame
            objects = matches.object_LP[layer, here].tolist()
            chosen = matches.query_LP[layer, here].tolist()
            assert sorted(objects) == list(range(count))
            cost_NM = cost_LFNM[layer, frame]
            total = cost_NM[chosen, objects].sum().item()
            least = min(
                cost_NM[list(order), list(range(count))].sum().item()
                for order in permutations(range(queries), count)
            )
            assert total == pytest.approx(least)


@pytest.mark.parametrize("boxes_count", ["worst", "sum"])
def test_cost_is_the_sum_of_its_parts(random_outputs, annotate, boxes_count):
    frames, queries = 3, 4
    predictions = predictions_for(random_outputs, 0, 1, frames, queries)
    annotations = annotate(np.random.default_rng(1), frames)
    targets = to_tensors(annotations)
    cost_FNM = matching_cost(predictions, targets, boxes_count)[0]
    for frame, annotation in enumerate(annotations):
        for n in range(queries):
            scores = predictions.relation_logits_LFNR[0, frame, n]
            scores = torch.cat((scores[:3].softmax(0), scores[3:].sigmoid()))
            probability = predictions.class_logits_LFNK[0, frame, n].softmax(0)
            boxes = [
                predictions.person_boxes_LFN4[0, frame, n],
                predictions.object_boxes_LFN4[0, frame, n],
                predictions.union_boxes_LFN4[0, frame, n],
            ]
            for m in range(len(annotation.object_classes_M)):
                labels = torch.from_numpy(annotation.relations_MR()[m])
                hits = scores[labels].mean() + (1 - scores[~labels]).mean()
                wanted = [
                    targets.person_boxes_F4[frame].double(),
                    targets.object_boxes_FM4[frame, m].double(),
                    targets.union_boxes_FM4[frame, m].double(),
                ]
                l1 = [(a - b).abs().sum() for a, b in zip(boxes, wanted, strict=True)]
                giou = [
                    generalized_box_iou(corners(a)[None], corners(b)[None])[0, 0]
                    for a, b in zip(boxes, wanted, strict=True)
                ]
                # QPIC's maximum is over person and object, without the union box.
                l1 = sum(l1) if boxes_count == "sum" else max(l1[:2])
                giou = sum(giou) if boxes_count == "sum" else min(giou[:2])
                expected = -probability[annotation.object_classes_M[m]] - hits / 2 + 2.5 * l1 - giou
                # QPIC's means divide by the count plus 1e-4.
                assert cost_FNM[frame, n, m].item() == pytest.approx(expected.item(), abs=1e-3)


def test_more_objects_than_queries_leaves_the_dearest_unmatched(random_outputs, annotate):
    predictions = predictions_for(random_outputs, 0, 3, 6, 2)
    targets = to_tensors(annotate(np.random.default_rng(0), 6, most=5))
    matches = match(predictions, targets)
    pairs = [min(count, 2) for count in targets.objects]
    assert torch.bincount(matches.frame_P, minlength=6).tolist() == pairs
    for layer in range(3):
        taken = list(zip(matches.frame_P.tolist(), matches.query_LP[layer].tolist(), strict=True))
        assert len(set(taken)) == sum(pairs)
    counts = torch.tensor(targets.objects)[matches.frame_P]
    assert (matches.object_LP < counts).all()


def test_generalized_iou_equals_torchvisions():
    boxes = torch.rand(2, 50, 4, dtype=torch.float64)
    first, second = corners(boxes)
    expected = generalized_box_iou(first, second).diagonal()
    torch.testing.assert_close(generalized_iou(first, second), expected)


def test_boxes_without_area_have_a_finite_overlap_and_gradient():
    empty = torch.zeros(3, 4, requires_grad=True)
    overlap = generalized_iou(corners(empty), torch.zeros(3, 4))
    overlap.sum().backward()
    assert torch.isfinite(overlap).all()
    assert torch.isfinite(empty.grad).all()


def test_diverged_training_is_told_in_a_sentence(random_outputs, annotate):
    predictions = predictions_for(random_outputs, 0, 1, 2, 3)
    with torch.no_grad():
        predictions.class_logits_LFNK[0, 1, 2] = float("nan")
    targets = to_tensors(annotate(np.random.default_rng(0), 2))
    with pytest.raises(InputError, match="the training has diverged"):
        match(predictions, targets)
