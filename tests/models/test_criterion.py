"""The losses against a literal restatement, frame by frame and pair by pair.

L layers, B blocks, T slots, F frames, N queries, M objects.
"""

import math

import pytest
import torch
from torchvision.ops import box_convert, generalized_box_iou

from bload.errors import InputError
from models.criterion import Criterion, loss_divisors, select_valid
from models.matcher import match
from models.network_input import NetworkInput
from models.outputs import Outputs
from models.targets import to_tensors
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import LOSSES, SIDE, annotate, gradients, random_outputs, tensors, tiny

LAYERS, BLOCKS, SLOTS, QUERIES = 3, 2, 3, 4


@pytest.fixture
def case():
    """Random outputs of a batch with one padding slot, and annotations."""
    outputs = random_outputs(3, LAYERS, BLOCKS, SLOTS, QUERIES)
    valid = torch.ones(BLOCKS, SLOTS, dtype=torch.bool)
    valid[1, 2] = False
    return outputs, annotate(4, 5, most=6), valid


def corners(box: torch.Tensor) -> torch.Tensor:
    return box_convert(box[None], "cxcywh", "xyxy")


def focal(logit: float, label: bool) -> float:
    score = 1 / (1 + math.exp(-logit))
    if label:
        return -((1 - score) ** 2) * math.log(score)
    return -(score**2) * math.log(1 - score)


def restated(
    outputs: Outputs, annotations, valid, match_boxes: str, relation_weight: float
) -> dict[str, float]:
    """Sums over all layers, each divided by its count."""
    targets = to_tensors(annotations)
    predictions = select_valid(outputs, valid, len(annotations))
    matches = match(predictions, targets, match_boxes)
    sums = dict.fromkeys(("class", "l1", "giou", "attention", "labels"), 0.0)
    pairs = weight = 0.0
    for layer in range(LAYERS):
        for frame, annotation in enumerate(annotations):
            here = matches.frame_P == frame
            queries, objects = matches.query_LP[layer, here], matches.object_LP[layer, here]
            answers = dict(zip(queries.tolist(), objects.tolist(), strict=True))
            labels_MR = annotation.relations_MR()
            for query in range(QUERIES):
                logits = predictions.class_logits_LFNK[layer, frame, query].log_softmax(0)
                relations = predictions.relation_logits_LFNR[layer, frame, query]
                if query not in answers:
                    sums["class"] -= 0.1 * logits[0].item()
                    weight += 0.1 / LAYERS
                    continue
                m = answers[query]
                sums["class"] -= logits[annotation.object_classes_M[m]].item()
                weight += 1 / LAYERS
                pairs += 1 / LAYERS
                for predicted, wanted in zip(
                    predictions.boxes, targets.boxes_FM34.unbind(2), strict=True
                ):
                    box, true = predicted[layer, frame, query], wanted[frame, m].double()
                    sums["l1"] += 2.5 * (box - true).abs().sum().item()
                    sums["giou"] += 1 - generalized_box_iou(corners(box), corners(true)).item()
                attention = relations[:3].log_softmax(0)
                sums["attention"] -= sum(attention[r].item() for r in range(3) if labels_MR[m, r])
                labels = ((relations[r].item(), bool(labels_MR[m, r])) for r in range(3, 26))
                sums["labels"] += sum(focal(*label) for label in labels)
    expected_pairs, expected_weight = loss_divisors(targets.objects, QUERIES).tolist()
    assert pairs == pytest.approx(expected_pairs)
    assert weight == pytest.approx(expected_weight)
    sums["attention"] *= relation_weight
    sums["labels"] *= relation_weight
    return {name: value / (weight if name == "class" else pairs) for name, value in sums.items()}


@pytest.mark.parametrize(("weight", "match_boxes"), [(1.0, "worst"), (3.0, "sum")])
def test_losses_equal_the_literal_restatement(case, weight, match_boxes):
    outputs, annotations, valid = case
    targets = to_tensors(annotations)
    total = loss_divisors(targets.objects, QUERIES)
    losses = Criterion(weight, match_boxes)(outputs, targets, valid, total)
    expected = restated(outputs, annotations, valid, match_boxes, weight)
    assert losses["loss"].item() == pytest.approx(sum(expected.values()), rel=1e-6)
    # It is a sum: twice the counts, as of two ranks, is half the loss.
    half = Criterion(weight, match_boxes)(outputs, targets, valid, 2 * total)
    assert half["loss"].item() == pytest.approx(losses["loss"].item() / 2)


def test_parts_are_those_of_the_last_layer(case):
    outputs, annotations, valid = case
    targets = to_tensors(annotations)
    total = loss_divisors(targets.objects, QUERIES)
    losses = LOSSES(outputs, targets, valid, total)
    last = Outputs(**{name: field[-1:] for name, field in tensors(outputs).items()})
    alone = LOSSES(last, targets, valid, total)
    parts = [name for name in losses if name != "loss"]
    assert sum(losses[name] for name in parts).item() == pytest.approx(alone["loss"].item())
    for name in parts:
        assert losses[name].item() == pytest.approx(alone[name].item())


@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_filler_alone_gives_zero_loss_and_zero_gradients(temporal):
    frames = torch.zeros(2, 3, 3, SIDE, SIDE, dtype=torch.uint8)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    targets = to_tensors([])
    for small in (False, True):
        model = tiny(temporal=temporal, anchored=small, dense=small)
        outputs = model(NetworkInput(frames, nothing, nothing))
        losses = LOSSES(outputs, targets, nothing, loss_divisors(targets.objects, 5))
        losses["loss"].backward()
        assert ("dense" in losses) is small
        assert all(value.item() == 0 for value in losses.values())
        assert not gradients(model).any()


def test_missing_targets_are_reported_with_both_numbers(case):
    outputs, annotations, valid = case
    targets = to_tensors(annotations[:-1])
    with pytest.raises(InputError, match=r"5 frames .* 4 targets"):
        LOSSES(outputs, targets, valid, loss_divisors(targets.objects, QUERIES))
