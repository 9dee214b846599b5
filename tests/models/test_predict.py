"""Annotations to tensors, and outputs to predictions.

L layers, F frames, N queries, M objects.
"""

from dataclasses import replace

import numpy as np
import torch
from torchvision.ops import box_convert

from models.predict import predict
from models.targets import to_tensors
from tests.models.conftest import annotate, random_outputs


def test_targets_are_shares_of_the_native_frame():
    annotations = annotate(0, 6, most=4, size_hw=(120, 200))
    targets = to_tensors(annotations)
    scale = torch.tensor((200, 120, 200, 120.0))
    for frame, annotation in enumerate(annotations):
        count = len(annotation.object_classes_M)
        assert targets.is_object_FM[frame].sum() == targets.objects[frame] == count
        person, objects, union = (
            box_convert(boxes[frame], "cxcywh", "xyxy")[:count] * scale
            for boxes in targets.boxes_FM34.unbind(2)
        )
        wanted = torch.from_numpy(annotation.object_boxes_M4)
        torch.testing.assert_close(person[0], torch.from_numpy(annotation.person_box_4))
        torch.testing.assert_close(objects, wanted)
        torch.testing.assert_close(union[:, :2], torch.minimum(person, wanted)[:, :2])
        torch.testing.assert_close(union[:, 2:], torch.maximum(person, wanted)[:, 2:])
        relations = torch.from_numpy(annotation.relations_MR())
        assert targets.relations_FMR[frame, :count].bool().equal(relations)
        assert not targets.boxes_FM34.unbind(2)[2][frame, count:].any()


def test_predictions_stay_inside_the_frame_and_have_a_class():
    outputs = random_outputs(0, 2, 1, 3, 5)
    wide = replace(outputs, object_boxes_LBTN4=outputs.object_boxes_LBTN4 * 2)
    predictions = predict(wide, torch.ones(1, 3, dtype=torch.bool), [(30, 40)] * 3)
    for slot, prediction in enumerate(predictions):
        boxes = prediction.object_boxes_P4
        assert (boxes >= 0).all()
        assert (boxes <= (40, 30, 40, 30)).all()
        assert (prediction.object_classes_P >= 1).all()
        assert (prediction.person_scores_P == 1).all()
        np.testing.assert_allclose(prediction.relation_scores_PR[:, :3].sum(1), 1, rtol=1e-5)
        # The score is the probability among all 37 classes, "no object" included.
        chances = outputs.class_logits_LBTNK[-1, 0, slot].softmax(-1).detach().numpy()
        best = chances[np.arange(5), prediction.object_classes_P]
        np.testing.assert_allclose(prediction.object_scores_P, best, rtol=1e-6)
        assert (best == chances[:, 1:].max(1)).all()
