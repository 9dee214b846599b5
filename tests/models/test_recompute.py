"""Recomputing activations changes what is kept, and nothing else."""

import contextlib

import numpy as np
import pytest
import torch

import models.recompute
from models import Criterion, counts, to_tensors
from models.cost import kept_bytes

FRAMES = 7
FULL = contextlib.nullcontext()


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    """So that seven frames make two full chunks and a rest."""
    monkeypatch.setattr(models.recompute, "CHUNK", 3)


@pytest.fixture
def frames():
    draw = torch.Generator().manual_seed(2)
    frames_BTCHW = torch.randint(0, 256, (1, FRAMES, 3, 32, 32), generator=draw).byte()
    start_BT = torch.arange(FRAMES)[None] % 4 == 0
    return frames_BTCHW, start_BT, torch.ones_like(start_BT)


def gradients(model, frames, annotate, recompute, precision=FULL):
    model.recompute = recompute
    targets = to_tensors(annotate(np.random.default_rng(0), FRAMES))
    total = counts(targets, 5)
    torch.manual_seed(4)
    with precision:
        outputs = model(*frames)
    torch.manual_seed(5)  # the backward pass finds another random state than the forward pass
    loss = Criterion()(outputs, targets, frames[2], total)["loss"]
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("sizes", [{}, {"norm_first": False, "dense": True}])
def test_gradients_are_the_same(tiny, frames, annotate, sizes):
    model = tiny(**sizes)
    loss, kept = gradients(model, frames, annotate, False)
    loss_again, recomputed = gradients(model, frames, annotate, True)
    assert max(gradient.abs().max() for gradient in kept.values()) > 0.01
    torch.testing.assert_close(loss_again, loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(recomputed, kept, rtol=0, atol=1e-12)


@pytest.fixture
def same_chunks_kept(monkeypatch):
    """Take the same chunks, hence the same random numbers and roundings, with everything kept."""
    return lambda: monkeypatch.setattr(
        models.recompute, "checkpoint", lambda function, *chunks, **_: function(*chunks)
    )


def test_dropout_drops_the_same_again(tiny, frames, annotate, same_chunks_kept):
    model = tiny(dropout=0.3)
    _, recomputed = gradients(model, frames, annotate, True)
    same_chunks_kept()
    _, kept = gradients(model, frames, annotate, True)
    torch.testing.assert_close(recomputed, kept, rtol=0, atol=1e-12)


def test_gradients_are_the_same_under_autocast(tiny, frames, annotate, same_chunks_kept):
    model = tiny().float()
    half = torch.autocast("cpu", torch.bfloat16)
    _, recomputed = gradients(model, frames, annotate, True, half)
    same_chunks_kept()
    _, kept = gradients(model, frames, annotate, True, half)
    torch.testing.assert_close(recomputed, kept, rtol=0, atol=1e-6)


def test_nothing_of_the_per_frame_part_is_kept(tiny, frames):
    model = tiny()
    keeping = kept_bytes(model, frames, torch.autocast("cpu", enabled=False))
    model.recompute = True
    recomputing = kept_bytes(model, frames, torch.autocast("cpu", enabled=False))
    assert keeping["backbone"] > 0
    assert keeping["encoder"] > 0
    assert {"backbone", "input_proj", "encoder"}.isdisjoint(recomputing)
    assert recomputing.total() < 0.7 * keeping.total()


def test_chunks_are_recomputed_one_after_another(tiny, frames):
    """A chunk's backward pass ends before the next is recomputed: two are never alive at once."""
    model = tiny()
    model.recompute = True
    events = []

    def first_time(module, inputs, output):
        output.register_hook(lambda _: events.append("back"))

    hook = model.backbone.register_forward_hook(first_time)
    outputs = model(*frames)
    hook.remove()
    model.backbone.register_forward_hook(lambda _, inputs, __: events.append(len(inputs[0])))
    outputs.class_logits_LBTNK.sum().backward()
    assert events == [1, "back", 3, "back", 3, "back"]


def test_without_gradients_nothing_is_recomputed(tiny, frames, monkeypatch):
    model = tiny().eval()
    model.recompute = True

    def never(*_, **__):
        raise AssertionError("checkpointed")

    with torch.no_grad():
        wanted = model(*frames).class_logits_LBTNK
        monkeypatch.setattr(models.recompute, "checkpoint", never)
        torch.testing.assert_close(model(*frames).class_logits_LBTNK, wanted)
