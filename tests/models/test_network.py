"""The network as a whole, gaps between frames that it takes, and predictions made of outputs."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from models import build_model
from models.branch import GapEmbedding
from models.predict import predict
from tests.models.conftest import FULL, random_input, random_outputs, tensors, tiny


@torch.no_grad()
def test_full_size_runs_on_a_small_frame():
    torch.manual_seed(0)
    model = build_model(FULL).eval()
    assert 0.01 < model.backbone(torch.randn(2, 3, 64, 64)).std() < 1
    outputs = model(random_input([[2]], slots=2))
    assert outputs.class_logits_LBTNK.shape == (8, 1, 2, 100, 37)
    assert all(torch.isfinite(field).all() for field in tensors(outputs).values())


def test_branches_share_nothing_but_the_encoded_frames():
    model = tiny()
    model(random_input([[2]], slots=2)).relation_logits_LBTNR.sum().backward()

    def learns(part: nn.Module) -> set[bool]:
        return {p.grad is not None and bool(p.grad.any()) for p in part.parameters()}

    assert learns(model.object_branch) == {False}
    assert True in learns(model.relation_branch)
    assert True in learns(model.encoder)
    assert all(parameter.grad is not None for parameter in model.relation_branch.parameters())


def test_gaps_are_told_apart_small_ones_finely_and_large_ones_coarsely():
    torch.manual_seed(0)
    gap = GapEmbedding(16)
    assert not gap(torch.tensor([[0.0, 7.0]])).any()  # before training
    torch.nn.init.normal_(gap.linear.weight)
    vectors = gap(torch.tensor([[0.0, 1.0, 2.0, 10.0, 100.0, 101.0, 1000.0, 30_000.0]]))[0]
    distance = torch.cdist(vectors, vectors)
    others = distance + 100 * torch.eye(8)
    others[4, 5] = others[5, 4] = 100  # 100 and 101 are nearly alike
    assert others.min() > 10 * distance[4, 5] > 0


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
