"""The losses against a literal restatement, frame by frame and pair by pair.

L layers, B blocks, T slots, F frames, N queries, M objects.
"""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torchvision.ops import generalized_box_iou

from bload.errors import InputError
from models import Criterion, Outputs, counts, to_tensors
from models.boxes import corners
from models.criterion import select
from models.matcher import match
from models.temporal import TEMPORAL

LAYERS, BLOCKS, SLOTS, QUERIES = 3, 2, 3, 4


@pytest.fixture
def case(random_outputs, annotate):
    """Random outputs of a batch with one padding slot, and annotations."""
    outputs = random_outputs(3, LAYERS, BLOCKS, SLOTS, QUERIES)
    valid = torch.ones(BLOCKS, SLOTS, dtype=torch.bool)
    valid[1, 2] = False
    return outputs, annotate(np.random.default_rng(4), 5, most=6), valid


def focal(logit: float, label: bool) -> float:
    score = 1 / (1 + math.exp(-logit))
    if label:
        return -((1 - score) ** 2) * math.log(score)
    return -(score**2) * math.log(1 - score)


def restated(
    outputs: Outputs, annotations, valid, everywhere: bool, match_boxes: str, relation_weight: float
) -> dict[str, float]:
    """Sums over all layers, each divided by its count."""
    targets = to_tensors(annotations)
    predictions = select(outputs, valid, len(annotations))
    matches = match(predictions, targets, match_boxes)
    sums = dict.fromkeys(("class", "l1", "giou", "attention", "labels"), 0.0)
    pairs = weight = 0.0
    for layer in range(LAYERS):
        for frame, annotation in enumerate(annotations):
            here = matches.frame_P == frame
            answers = dict(
                zip(
                    matches.query_LP[layer, here].tolist(),
                    matches.object_LP[layer, here].tolist(),
                    strict=True,
                )
            )
            labels_MR = annotation.relations_MR()
            for query in range(QUERIES):
                logits = predictions.class_logits_LFNK[layer, frame, query].log_softmax(0)
                relations = predictions.relation_logits_LFNR[layer, frame, query]
                if query not in answers:
                    sums["class"] -= 0.1 * logits[0].item()
                    weight += 0.1 / LAYERS
                    if everywhere:
                        sums["labels"] += sum(
                            focal(relations[r].item(), False) for r in range(3, 26)
                        )
                    continue
                m = answers[query]
                sums["class"] -= logits[annotation.object_classes_M[m]].item()
                weight += 1 / LAYERS
                pairs += 1 / LAYERS
                for predicted, wanted in (
                    (predictions.person_boxes_LFN4, targets.person_boxes_F4[frame]),
                    (predictions.object_boxes_LFN4, targets.object_boxes_FM4[frame, m]),
                    (predictions.union_boxes_LFN4, targets.union_boxes_FM4[frame, m]),
                ):
                    box = predicted[layer, frame, query]
                    sums["l1"] += 2.5 * (box - wanted).abs().sum().item()
                    overlap = generalized_box_iou(
                        corners(box)[None], corners(wanted.double())[None]
                    )
                    sums["giou"] += 1 - overlap.item()
                for r in range(3):
                    if labels_MR[m, r]:
                        sums["attention"] -= relations[:3].log_softmax(0)[r].item()
                sums["labels"] += sum(
                    focal(relations[r].item(), bool(labels_MR[m, r])) for r in range(3, 26)
                )
    expected_pairs, expected_weight = counts(targets, QUERIES).tolist()
    assert pairs == pytest.approx(expected_pairs)
    assert weight == pytest.approx(expected_weight)
    sums["attention"] *= relation_weight
    sums["labels"] *= relation_weight
    return {name: value / (weight if name == "class" else pairs) for name, value in sums.items()}


@pytest.mark.parametrize(
    ("relations_on", "weight", "match_boxes"),
    [("matched", 1.0, "worst"), ("all", 1.0, "worst"), ("matched", 3.0, "sum")],
)
def test_losses_equal_the_literal_restatement(case, relations_on, weight, match_boxes):
    outputs, annotations, valid = case
    targets = to_tensors(annotations)
    criterion = Criterion(relations_on, weight, match_boxes)
    losses = criterion(outputs, targets, valid, counts(targets, QUERIES))
    everywhere = relations_on == "all"
    expected = restated(outputs, annotations, valid, everywhere, match_boxes, weight)
    assert losses["loss"].item() == pytest.approx(sum(expected.values()), rel=1e-6)


def test_parts_are_those_of_the_last_layer(case):
    outputs, annotations, valid = case
    targets = to_tensors(annotations)
    total = counts(targets, QUERIES)
    losses = Criterion()(outputs, targets, valid, total)
    last = Outputs(
        **{field.name: getattr(outputs, field.name)[-1:] for field in fields(Outputs)[:5]}
    )
    alone = Criterion()(last, targets, valid, total)
    parts = [name for name in losses if name != "loss"]
    assert sum(losses[name] for name in parts).item() == pytest.approx(alone["loss"].item())
    for name in parts:
        assert losses[name].item() == pytest.approx(alone[name].item())


def test_order_of_objects_does_not_matter(case):
    outputs, annotations, valid = case

    def turned(frame):
        order = np.arange(len(frame.object_classes_M))[::-1]
        relations = frame.relations_G2.copy()
        relations[:, 0] = len(order) - 1 - relations[:, 0]
        return replace(
            frame,
            object_boxes_M4=frame.object_boxes_M4[order],
            object_classes_M=frame.object_classes_M[order],
            relations_G2=relations[::-1],
        )

    results = []
    for frames in (annotations, [turned(frame) for frame in annotations]):
        targets = to_tensors(frames)
        results.append(Criterion()(outputs, targets, valid, counts(targets, QUERIES)))
    for name in results[0]:
        assert results[0][name].item() == pytest.approx(results[1][name].item())


def test_pair_without_attention_label_adds_no_attention_loss(case):
    outputs, annotations, valid = case
    silent = [
        replace(frame, relations_G2=frame.relations_G2[frame.relations_G2[:, 1] >= 3])
        for frame in annotations
    ]
    targets = to_tensors(silent)
    losses = Criterion()(outputs, targets, valid, counts(targets, QUERIES))
    assert losses["attention"].item() == 0


def test_doubling_the_counts_halves_the_loss(case):
    outputs, annotations, valid = case
    targets = to_tensors(annotations)
    total = counts(targets, QUERIES)
    one = Criterion()(outputs, targets, valid, total)["loss"]
    two = Criterion()(outputs, targets, valid, 2 * total)["loss"]
    assert one.item() == pytest.approx(2 * two.item())


def test_counts_add_up_over_ranks(annotate):
    frames = annotate(np.random.default_rng(0), 7, most=6)
    parts = [counts(to_tensors(part), QUERIES) for part in (frames[:3], frames[3:], [])]
    torch.testing.assert_close(sum(parts), counts(to_tensors(frames), QUERIES))


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("relations_on", ["matched", "all"])
def test_filler_alone_gives_zero_loss_and_zero_gradients(tiny, temporal, relations_on):
    model = tiny(temporal=temporal)
    frames = torch.zeros(2, 3, 3, 32, 32, dtype=torch.uint8)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    targets = to_tensors([])
    for total in (counts(targets, 5), torch.tensor([7.0, 9.0])):
        losses = Criterion(relations_on)(model(frames, nothing, nothing), targets, nothing, total)
        losses["loss"].backward()
        assert all(value.item() == 0 for value in losses.values())
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert not parameter.grad.any(), name


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("anchored", [True, False])
def test_every_parameter_gets_a_gradient(tiny, annotate, temporal, norm_first, anchored):
    model = tiny(temporal=temporal, norm_first=norm_first, anchored=anchored)
    frames = torch.randint(0, 256, (1, 4, 3, 32, 32), dtype=torch.uint8)
    start = torch.tensor([[True, False, False, True]])
    targets = to_tensors(annotate(np.random.default_rng(0), 4))
    valid = torch.ones_like(start)
    Criterion()(model(frames, start, valid), targets, valid, counts(targets, 5))["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_missing_targets_are_told_with_both_numbers(case):
    outputs, annotations, valid = case
    targets = to_tensors(annotations[:-1])
    with pytest.raises(InputError, match="valid_BT marks 5 frames but there are targets for 4"):
        Criterion()(outputs, targets, valid, counts(targets, QUERIES))


def test_unknown_relation_rule_is_refused():
    with pytest.raises(InputError, match="to matched or all"):
        Criterion("some")
