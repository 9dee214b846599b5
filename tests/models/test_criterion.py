"""Matches against SciPy, and costs and losses against literal restatements.

L layers, B blocks, T slots, F frames, H rows and W columns of tokens, N queries, M objects.
"""

import math
from itertools import product

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torchvision.ops import box_convert, generalized_box_iou

from bload.errors import InputError
from models.criterion import Criterion, loss_divisors, select_valid
from models.dense import dense_loss
from models.matcher import box_distances, match, matching_cost
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
        model = tiny(temporal=temporal, anchored=small, dense=small, skip_padding=small)
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
                    giou.append(generalized_box_iou(corners(box), corners(true)).item())
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


def literal_dense_loss(logits_FHWE, frames: list) -> float:
    """The definition, token by token; each picture may have a grid of its own."""
    total = 0.0
    for logits_HWE, frame in zip(logits_FHWE, frames, strict=True):
        sides = zip(logits_HWE.shape, frame.size_hw, strict=False)
        centres = [(torch.arange(cells) + 0.5).double() / cells * side for cells, side in sides]
        y, x = torch.meshgrid(*centres, indexing="ij")
        free = torch.ones_like(y, dtype=torch.bool)
        # The person is class 1, and has no relations to itself.
        boxes = [frame.person_box_4, *frame.object_boxes_M4]
        kinds = [1, *frame.object_classes_M]
        for box, kind, relations in zip(boxes, kinds, [None, *frame.relations_MR()], strict=True):
            left, top, right, bottom = map(float, box)
            inside = (left <= x) & (x < right) & (top <= y) & (y < bottom)
            free &= ~inside
            for logits in logits_HWE[inside]:
                loss = -logits[:37].log_softmax(0)[kind]
                if relations is not None:
                    attention, labels = torch.from_numpy(relations).double().split((3, 23))
                    loss -= (attention * logits[37:40].log_softmax(0)).sum()
                    chance = logits[40:].sigmoid()
                    loss -= (labels * chance.log() + (1 - labels) * (1 - chance).log()).sum()
                total += float(loss) / int(inside.sum())
        for logits in logits_HWE[free]:
            share = len(frame.object_classes_M) / int(free.sum())
            total -= share * float(logits[:37].log_softmax(0)[0])
    return total


def test_dense_loss_is_its_definition_on_the_tokens_of_each_picture():
    frames = annotate(3, 6)
    valid_BT = torch.tensor([[True, True, True, False], [True, True, True, False]])
    logits = torch.randn(2, 4, 8, 10, 37 + 26, dtype=torch.float64, requires_grad=True)
    loss = dense_loss(logits, to_tensors(frames), valid_BT)
    wanted = literal_dense_loss(logits.detach()[valid_BT], frames)
    torch.testing.assert_close(loss.item(), wanted, rtol=1e-6, atol=0)
    # Boxes may reach a rounding beyond the picture, but not to what is beside it.
    for box in (frames[1].person_box_4, frames[1].object_boxes_M4[0]):
        box[:] = (0, 0, 40.00001, 30.00001)
    rows_columns = torch.tensor([(8, 10), (4, 10), (8, 5), (1, 1), (3, 7), (2, 9)])
    extent_BT2 = torch.zeros(2, 4, 2)
    extent_BT2[valid_BT] = rows_columns.flip(-1) / torch.tensor([10, 8])
    loss = dense_loss(logits, to_tensors(frames), valid_BT, extent_BT2)
    loss.backward()
    own = [
        picture[:rows, :columns]
        for picture, (rows, columns) in zip(logits.detach()[valid_BT], rows_columns, strict=True)
    ]
    torch.testing.assert_close(loss.item(), literal_dense_loss(own, frames), rtol=1e-6, atol=0)
    for gradient, (rows, columns) in zip(logits.grad[valid_BT], rows_columns, strict=True):
        assert gradient[:rows, :columns, 0].all()
        assert not gradient[rows:].any()
        assert not gradient[:, columns:].any()
