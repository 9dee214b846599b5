"""Recomputing and offloading activations change what is kept where, and nothing else."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import models.recompute
from bload.errors import InputError
from models.config import recomputed_share
from models.cost import PER_FRAME, saved_bytes
from models.execution import Execution
from models.frames import Frames
from models.recompute import Offload, Recompute
from tests.models.conftest import gradients, loss_of, random_frames, tiny
from tests.models.live import Live

FRAMES = 7


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    """So that seven frames make two full chunks and a rest."""
    monkeypatch.setattr(models.recompute, "CHUNK", 3)


@pytest.fixture
def frames():
    extent_BT2 = torch.linspace(0.2, 1, 2 * FRAMES).view(1, FRAMES, 2)
    return replace(random_frames([[4, 3]], FRAMES), extent_BT2=extent_BT2)


def loss_and_gradients(model, frames, share=None, half=False):
    if share is not None:
        model.execution = replace(model.execution, share=share)
    torch.manual_seed(4)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        outputs = model(frames)
    torch.manual_seed(5)  # the backward pass finds another random state than the forward pass
    loss = loss_of(outputs, frames.valid_BT)
    loss.backward()
    return loss.detach(), gradients(model)


def keep_all(function, *chunk, **_):
    """In place of `checkpoint`."""
    return function(*chunk)


KINDS = ({"norm_first": False}, {"anchored": True, "dense": True}, {"dropout": 0.3}, {})


@pytest.mark.parametrize(("changes", "share"), [*((kind, 1.0) for kind in KINDS), (KINDS[2], 0.6)])
def test_losses_and_gradients_are_the_same(frames, monkeypatch, changes, share):
    half = not changes
    model = tiny(**changes, execution=Recompute())
    model = model.float() if half else model
    again = loss_and_gradients(model, frames, share, half)
    by_chunk = half or "dropout" in changes  # roundings and random numbers follow the chunks
    monkeypatch.setattr(models.recompute, "checkpoint", keep_all)
    kept = loss_and_gradients(model, frames, share * by_chunk, half)
    assert kept[1].abs().max() > 0.01
    torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-6 if half else 1e-12)


def first(frames, count):
    """The first so many frames."""
    parts = (frames.pixels_BTCHW, frames.start_BT, frames.valid_BT, frames.extent_BT2)
    return Frames(*(values[:, :count] for values in parts))


@pytest.mark.parametrize("count", [1, 2, FRAMES])
@pytest.mark.parametrize("skipped", [False, True])
def test_every_share_gives_the_same_gradients(frames, count, skipped):
    """Of 1 and 2 pictures less than a chunk, of 7 also a rest, and with padding left out fewer."""
    model = tiny(execution=Recompute(skipped))
    frames = replace(first(frames, count), valid_BT=torch.arange(count)[None] % 3 != 1)
    kept = loss_and_gradients(model, frames, 0.0)
    assert kept[1].abs().max() > 0.01
    for share in (0.1, 0.3, 0.5, 0.9, 1.0):
        again = loss_and_gradients(model, frames, share)
        torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-12)


def kept_by(model, frames):
    return saved_bytes(model, frames, torch.autocast("cpu", enabled=False))


def per_frame(kept):
    return sum(kept[part] for part in PER_FRAME)


@pytest.mark.parametrize("skipped", [False, True])
def test_every_picture_more_that_is_recomputed_keeps_as_much_less(frames, skipped):
    model = tiny(execution=Recompute(skipped))
    frames.valid_BT[0, 5:] = False
    pictures = 5 if skipped else FRAMES
    kept = []
    for again in range(pictures + 1):
        model.execution = replace(model.execution, share=again / pictures)
        kept.append(per_frame(kept_by(model, frames)))
    assert kept[-1] == 0
    assert kept[0] > 0
    steps = [more - less for more, less in pairwise(kept)]
    assert steps == pytest.approx([kept[0] / pictures] * pictures, rel=0.05)


def test_what_is_kept_is_gone_before_anything_is_recomputed(frames, monkeypatch):
    """So that the chunk under way takes no memory beyond the peak."""
    model, order = tiny(execution=Recompute()), []
    encode = model.encode

    def record(frames_ICHW, extent_I2=None):
        tokens = encode(frames_ICHW, extent_I2)
        if tokens.requires_grad:
            tokens.register_hook(lambda _: order.append(len(frames_ICHW)))
        return tokens

    monkeypatch.setattr(model, "encode", record)
    loss_and_gradients(model, frames, 4 / FRAMES)
    assert order[0] == 3


def test_offloading_gives_the_same_gradients_and_sees_the_per_frame_part_alone(frames, monkeypatch):
    model = tiny(execution=Recompute(share=0))
    kept, gradients = kept_by(model, frames), loss_and_gradients(model, frames, 0.0)
    packed, unpacked = [], []

    def hooks(pin_memory):
        assert not pin_memory

        def pack(tensor):
            packed.append(tensor.clone())
            return len(packed) - 1

        def unpack(index):
            unpacked.append(index)
            return packed[index]

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    model.execution = Offload()
    monkeypatch.setattr(models.recompute, "save_on_cpu", hooks)
    stays = kept_by(model, frames)
    packed.clear()
    again = loss_and_gradients(model, frames)
    torch.testing.assert_close(again, gradients, rtol=0, atol=0)
    assert per_frame(stays) == 0
    assert {part: kept[part] for part in stays if part not in ("other", *PER_FRAME)} == {
        part: stays[part] for part in stays if part not in ("other", *PER_FRAME)
    }
    assert sum(tensor.nbytes for tensor in packed) >= per_frame(kept)
    assert {*unpacked} == {*range(len(packed))}


def test_offloading_leaves_less_on_a_gpu():
    """With fake tensors on a GPU that need not be there."""

    def four_squares(values_I, extent_I2=None):
        return values_I.square().square().square().square()

    with FakeTensorMode():
        values_I = torch.zeros(1000, device="cuda", requires_grad=True)
        for execution, alive in ((Execution(), 4), (Offload(), 1)):
            with Live("cuda") as live:
                result = execution.encode(SimpleNamespace(encode=four_squares), values_I, None)
            assert live.now == alive * values_I.nbytes
            del result


@pytest.mark.parametrize("choice", ["all", "-0.1", "1.5", "nan", ""])
def test_what_is_no_share_is_refused(choice):
    with pytest.raises(InputError, match=r"model\.recompute is"):
        recomputed_share(choice)


def test_shares_by_name_and_number():
    choices = ("none", "offload", "backbone", "0", "0.3", "1")
    assert [recomputed_share(choice) for choice in choices] == [0, 0, 1, 0, 0.3, 1]
