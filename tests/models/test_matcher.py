"""The matcher against SciPy, and its costs by hand.

L layers, F frames, N queries, M objects.
"""

from itertools import product

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torchvision.ops import box_convert, generalized_box_iou

from bload.errors import InputError
from models.criterion import select_valid
from models.matcher import box_distances, match, matching_cost
from models.targets import to_tensors
from tests.models.conftest import annotate, random_outputs


def corners(boxes: torch.Tensor) -> torch.Tensor:
    return box_convert(boxes, "cxcywh", "xyxy")


def predictions_for(seed: int, layers: int, frames: int, queries: int):
    outputs = random_outputs(seed, layers, 1, frames, queries)
    return select_valid(outputs, torch.ones(1, frames, dtype=torch.bool), frames)


@pytest.mark.parametrize("boxes_count", ["worst", "sum"])
def test_cost_is_the_sum_of_its_parts(boxes_count):
    frames, queries = 3, 4
    predictions = predictions_for(0, 1, frames, queries)
    annotations = annotate(1, frames)
    targets = to_tensors(annotations)
    cost_FNM = matching_cost(predictions, targets, boxes_count)[0].mT
    for frame, annotation in enumerate(annotations):
        for n in range(queries):
            scores = predictions.relation_logits_LFNR[0, frame, n]
            scores = torch.cat((scores[:3].softmax(0), scores[3:].sigmoid()))
            probability = predictions.class_logits_LFNK[0, frame, n].softmax(0)
            for m in range(len(annotation.object_classes_M)):
                labels = torch.from_numpy(annotation.relations_MR()[m])
                hits = scores[labels].mean() + (1 - scores[~labels]).mean()
                l1, giou = [], []
                for boxes, wanted in zip(
                    predictions.boxes, targets.boxes_FM34.unbind(2), strict=True
                ):
                    box, true = boxes[0, frame, n], wanted[frame, m].double()
                    l1.append((box - true).abs().sum())
                    giou.append(generalized_box_iou(corners(box[None]), corners(true[None])).item())
                # QPIC's maximum is over person and object, without the union box.
                l1 = sum(l1) if boxes_count == "sum" else max(l1[:2])
                giou = sum(giou) if boxes_count == "sum" else min(giou[:2])
                expected = -probability[annotation.object_classes_M[m]] - hits / 2 + 2.5 * l1 - giou
                # QPIC's means divide by the count plus 1e-4.
                assert cost_FNM[frame, n, m].item() == pytest.approx(expected.item(), abs=1e-3)


def test_boxes_without_area_have_a_finite_overlap_and_gradient():
    empty = torch.zeros(4, 3, requires_grad=True)
    l1, overlap = box_distances(empty, torch.zeros(4, 3))
    (l1 + overlap).sum().backward()
    assert torch.isfinite(overlap).all()
    assert torch.isfinite(empty.grad).all()


def test_objects_that_compete_for_a_query_are_matched_as_scipy_does():
    frames, queries = 40, 6
    predictions = predictions_for(2, 2, frames, queries)
    with torch.no_grad():
        # The first query is best for all objects.
        predictions.outputs_LFNC[:, : frames // 2, 1:] += 3
    targets = to_tensors(annotate(2, frames, most=8))
    cost_LFMN = matching_cost(predictions, targets, "worst").detach()
    matches = match(predictions, targets, "worst")
    competing = 0
    for layer, (frame, count) in product(range(2), enumerate(targets.objects)):
        here = matches.frame_P == frame
        cost_MN = cost_LFMN[layer, frame, :count].numpy()
        objects, chosen = linear_sum_assignment(cost_MN)
        assert matches.object_LP[layer, here].tolist() == objects.tolist()
        assert matches.query_LP[layer, here].tolist() == chosen.tolist()
        competing += len(set(cost_MN.argmin(1))) < count
    assert 0 < competing < 2 * frames


def test_diverged_training_is_reported_with_the_numbers():
    predictions = predictions_for(0, 1, 2, 3)
    with torch.no_grad():
        predictions.class_logits_LFNK[0, 1, 2] = float("nan")
    targets = to_tensors(annotate(0, 2))
    cost = matching_cost(predictions, targets, "worst")
    bad = (~torch.isfinite(cost)).sum()
    with pytest.raises(InputError, match=rf"{bad} of {cost.numel()} .* diverged"):
        match(predictions, targets, "worst")
