"""Skipped padding: the same predictions of every frame, and the same gradients."""

import pytest
import torch

from models import Criterion, counts, to_tensors
from models.padding import put, take, to_compute
from models.temporal import PARTS
from tests.models.conftest import SIDE, annotate, gradients, tiny

VALID = [[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
STARTS = [[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]


@pytest.fixture
def frames():
    draw = torch.Generator().manual_seed(2)
    frames_BTCHW = torch.randint(0, 256, (3, 6, 3, SIDE, SIDE), generator=draw).byte()
    return frames_BTCHW, torch.tensor(STARTS).bool(), torch.tensor(VALID).bool()


def outputs_and_gradients(model, frames, skips, **options):
    model.skips_padding = skips
    model.zero_grad()
    outputs, valid_BT = model(*frames, **options), frames[2]
    targets = to_tensors(annotate(0, int(valid_BT.sum())))
    Criterion()(outputs, targets, valid_BT, counts(targets.objects, 5))["loss"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    return outputs, gradients(model)


@pytest.mark.parametrize("changes", [{"anchored": True, "dense": True}, {"norm_first": False}])
@pytest.mark.parametrize("bptt", [None, 4])
@pytest.mark.parametrize("temporal", PARTS)
def test_skipped_padding_gives_the_same_outputs_and_gradients(frames, temporal, bptt, changes):
    model, extent_BT2 = tiny(temporal=temporal, **changes), torch.linspace(0.3, 1, 36).view(3, 6, 2)
    computed, skipped = (
        outputs_and_gradients(model, frames, skips, bptt=bptt, extent_BT2=extent_BT2)
        for skips in (False, True)
    )
    for name in ("person_boxes_LBTN4", "class_logits_LBTNK", "relation_logits_LBTNR"):
        one, two = (getattr(of, name)[:, frames[2]] for of in (computed[0], skipped[0]))
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
    assert computed[1].abs().max() > 0.01
    torch.testing.assert_close(computed[1], skipped[1], rtol=0, atol=1e-10)


def test_a_batch_without_any_frame_gives_every_parameter_a_gradient_of_zero(frames):
    nothing = frames[0], torch.zeros(3, 6).bool(), torch.zeros(3, 6).bool()
    _, found = outputs_and_gradients(tiny(dense=True), nothing, True)
    assert not found.any()


def test_only_valid_frames_reach_the_backbone(frames):
    model, seen = tiny(), []
    model.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    model(*frames)
    model.skips_padding = True
    model(*frames)
    assert seen == [18, 6]


def test_what_is_taken_comes_back_to_its_slot():
    values_BT = torch.arange(12.0).view(2, 6)
    computed_BT = to_compute(values_BT % 3 == 1)
    back_BT = put(take(values_BT, computed_BT)[None], (2, 6), computed_BT)[0]
    assert torch.equal(back_BT, values_BT * computed_BT)
    assert to_compute(torch.zeros(2, 6).bool()).sum() == 1
