"""Annotations to tensors, and outputs to predictions.

L layers, F frames, N queries, M objects.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bload.errors import InputError
from datasets.scoring.recall import RecallMeter
from models import Outputs, to_tensors
from models.boxes import corners
from models.predict import predict


def test_targets_are_shares_of_the_native_frame(annotate):
    annotations = annotate(np.random.default_rng(0), 6, most=4, size_hw=(120, 200))
    targets = to_tensors(annotations)
    scale = torch.tensor((200, 120, 200, 120.0))
    for frame, annotation in enumerate(annotations):
        count = len(annotation.object_classes_M)
        assert targets.real_FM[frame].sum() == targets.objects[frame] == count
        person = corners(targets.person_boxes_F4[frame]) * scale
        objects = corners(targets.object_boxes_FM4[frame]) * scale
        union = corners(targets.union_boxes_FM4[frame]) * scale
        torch.testing.assert_close(person, torch.from_numpy(annotation.person_box_4))
        torch.testing.assert_close(objects[:count], torch.from_numpy(annotation.object_boxes_M4))
        torch.testing.assert_close(
            union[:count, :2], torch.minimum(person[:2], objects[:count, :2])
        )
        torch.testing.assert_close(
            union[:count, 2:], torch.maximum(person[2:], objects[:count, 2:])
        )
        assert (
            targets.relations_FMR[frame, :count]
            .bool()
            .equal(torch.from_numpy(annotation.relations_MR()))
        )
        assert not targets.union_boxes_FM4[frame, count:].any()


def test_no_frames_are_empty_targets():
    targets = to_tensors([])
    assert targets.person_boxes_F4.shape == (0, 4)
    assert targets.object_boxes_FM4.shape == (0, 0, 4)


def sure_outputs(annotations, valid_BT: torch.Tensor, queries: int) -> Outputs:
    """Outputs that say the annotations with certainty; the first layer and padding say nonsense."""
    targets = to_tensors(annotations)
    blocks, slots = valid_BT.shape

    def fill(channels: int, content: torch.Tensor, elsewhere: float) -> torch.Tensor:
        field = torch.full((2, blocks * slots, queries, channels), elsewhere)
        field[1, valid_BT.flatten(), : content.shape[1]] = content
        return field.unflatten(1, (blocks, slots))

    most = targets.classes_FM.shape[1]
    classes = torch.nn.functional.one_hot(targets.classes_FM, 37) * 40.0
    return Outputs(
        person_boxes_LBTN4=fill(4, targets.person_boxes_F4[:, None].expand(-1, most, -1), 0.1),
        object_boxes_LBTN4=fill(4, targets.object_boxes_FM4, 0.1),
        class_logits_LBTNK=fill(37, classes, 0.0),
        union_boxes_LBTN4=fill(4, targets.union_boxes_FM4, 0.1),
        relation_logits_LBTNR=fill(26, targets.relations_FMR * 40 - 20, -20.0),
    )


def test_sure_outputs_reach_full_recall(annotate):
    annotations = annotate(np.random.default_rng(0), 7, most=2)
    valid = torch.ones(2, 4, dtype=torch.bool)
    valid[0, 3] = False
    predictions = predict(
        sure_outputs(annotations, valid, 3), valid, [frame.size_hw for frame in annotations]
    )
    meter = RecallMeter()
    meter.update(predictions, annotations)
    assert meter.recall("with", 20) == 1
    assert meter.recall("no", 50) == 1


def test_predictions_stay_inside_the_frame_and_have_a_class(annotate, random_outputs):
    outputs = random_outputs(0, 2, 1, 3, 5)
    wide = replace(outputs, object_boxes_LBTN4=outputs.object_boxes_LBTN4 * 2)
    for prediction in predict(wide, torch.ones(1, 3, dtype=torch.bool), [(30, 40)] * 3):
        boxes = prediction.object_boxes_P4
        assert (boxes >= 0).all()
        assert (boxes <= (40, 30, 40, 30)).all()
        assert (prediction.object_classes_P >= 1).all()
        assert (prediction.person_scores_P == 1).all()
        np.testing.assert_allclose(prediction.relation_scores_PR[:, :3].sum(1), 1, rtol=1e-5)


def test_padding_alone_gives_no_predictions(random_outputs):
    assert predict(random_outputs(0, 1, 1, 2, 3), torch.zeros(1, 2, dtype=torch.bool), []) == []


def test_wrong_number_of_sizes_is_told(random_outputs):
    with pytest.raises(InputError, match="marks 2 frames but 1 sizes were given"):
        predict(random_outputs(0, 1, 1, 2, 3), torch.ones(1, 2, dtype=torch.bool), [(30, 40)])
