"""Recomputing activations changes what is kept, and nothing else."""

import pytest
import torch

import models.recompute
from models import Criterion, counts, to_tensors
from models.cost import kept_bytes
from tests.models.conftest import SIDE, annotate, gradients, tiny

FRAMES = 7


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    """So that seven frames make two full chunks and a rest."""
    monkeypatch.setattr(models.recompute, "CHUNK", 3)


@pytest.fixture
def frames():
    draw = torch.Generator().manual_seed(2)
    frames_BTCHW = torch.randint(0, 256, (1, FRAMES, 3, SIDE, SIDE), generator=draw).byte()
    start_BT = torch.arange(FRAMES)[None] % 4 == 0
    extent_BT2 = torch.linspace(0.2, 1, 2 * FRAMES).view(1, FRAMES, 2)
    return frames_BTCHW, start_BT, torch.ones_like(start_BT), None, extent_BT2


def loss_and_gradients(model, frames, recompute, half):
    model.recompute = recompute
    targets = to_tensors(annotate(0, FRAMES))
    torch.manual_seed(4)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        outputs = model(*frames)
    torch.manual_seed(5)  # the backward pass finds another random state than the forward pass
    loss = Criterion()(outputs, targets, frames[2], counts(targets, 5))["loss"]
    loss.backward()
    return loss.detach(), gradients(model)


def keep_all(function, *chunk, **_):
    """In place of `checkpoint`."""
    return function(*chunk)


KINDS = ({"norm_first": False}, {"anchored": True, "dense": True}, {"dropout": 0.3}, {})


@pytest.mark.parametrize("changes", KINDS)
def test_losses_and_gradients_are_the_same(frames, monkeypatch, changes):
    half = not changes
    model = tiny(**changes).float() if half else tiny(**changes)
    again = loss_and_gradients(model, frames, True, half)
    by_chunk = half or "dropout" in changes  # roundings and random numbers follow the chunks
    monkeypatch.setattr(models.recompute, "checkpoint", keep_all)
    kept = loss_and_gradients(model, frames, by_chunk, half)
    assert kept[1].abs().max() > 0.01
    torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-6 if half else 1e-12)


def test_nothing_of_the_per_frame_part_is_kept(frames):
    model = tiny()
    keeping = kept_bytes(model, frames, torch.autocast("cpu", enabled=False))
    model.recompute = True
    recomputing = kept_bytes(model, frames, torch.autocast("cpu", enabled=False))
    assert keeping["backbone"] > 0
    assert keeping["encoder"] > 0
    assert {"backbone", "input_proj", "encoder"}.isdisjoint(recomputing)
    assert recomputing.total() < 0.7 * keeping.total()
