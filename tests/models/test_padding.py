"""Skipped padding: the same predictions of every frame, and the same gradients."""

from dataclasses import replace

import pytest
import torch

from models.frames import Frames, walk_orders
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import gradients, loss_of, random_frames, tiny


@pytest.fixture
def frames():
    return random_frames([[3, 1], [2], []], slots=6)


def outputs_and_gradients(model, frames, skips):
    model.skip_padding = skips
    model.zero_grad()
    outputs = model(frames)
    loss_of(outputs, frames.valid_BT).backward()
    return outputs, gradients(model)


@pytest.mark.parametrize(
    ("bptt", "changes"), [(None, {"anchored": True, "dense": True}), (4, {"norm_first": False})]
)
@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_skipped_padding_gives_the_same_outputs_and_gradients(frames, temporal, bptt, changes):
    model, extent_BT2 = tiny(temporal=temporal, **changes), torch.linspace(0.3, 1, 36).view(3, 6, 2)
    orders = walk_orders(frames.start_BT, bptt)
    frames = replace(frames, extent_BT2=extent_BT2, orders=orders)
    computed, skipped = (outputs_and_gradients(model, frames, skips) for skips in (False, True))
    for name in ("person_boxes_LBTN4", "class_logits_LBTNK", "relation_logits_LBTNR"):
        one, two = (getattr(of, name)[:, frames.valid_BT] for of in (computed[0], skipped[0]))
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
    assert computed[1].abs().max() > 0.01
    torch.testing.assert_close(computed[1], skipped[1], rtol=0, atol=1e-10)


def test_a_batch_without_any_frame_gives_every_parameter_a_gradient_of_zero(frames):
    nothing = Frames(frames.pixels_BTCHW, torch.zeros(3, 6).bool(), torch.zeros(3, 6).bool())
    _, found = outputs_and_gradients(tiny(dense=True), nothing, True)
    assert not found.any()


def test_only_valid_frames_reach_the_backbone(frames):
    model, seen = tiny(), []
    model.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    model(frames)
    model.skip_padding = True
    model(frames)
    assert seen == [18, 6]
