"""Recomputing and offloading activations change what is kept where, and nothing else."""

from dataclasses import replace

import pytest
import torch

import models.dds
from bload.errors import InputError
from models.config import recomputed_share
from models.frames import Frames
from tests.models.conftest import gradients, loss_of, random_frames, tiny

FRAMES = 7


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    """So that seven frames make two full chunks and a rest."""
    monkeypatch.setattr(models.dds, "CHUNK", 3)


@pytest.fixture
def frames():
    extent_BT2 = torch.linspace(0.2, 1, 2 * FRAMES).view(1, FRAMES, 2)
    return replace(random_frames([[4, 3]], FRAMES), extent_BT2=extent_BT2)


def loss_and_gradients(model, frames, share, half=False):
    model.recomputed = share
    torch.manual_seed(4)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        outputs = model(frames)
    torch.manual_seed(5)  # the backward pass finds another random state than the forward pass
    loss = loss_of(outputs, frames.valid_BT)
    loss.backward()
    return loss.detach(), gradients(model)


@pytest.mark.parametrize(("dropout", "half"), [(0.3, False), (0.0, True)])
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_random_numbers_and_roundings_are_drawn_again(frames, monkeypatch, dropout, half, share):
    model = tiny(dropout=dropout)
    model = model.float() if half else model
    again = loss_and_gradients(model, frames, share, half)
    monkeypatch.setattr(models.dds, "checkpoint", lambda encode, *chunk, **_: encode(*chunk))
    kept = loss_and_gradients(model, frames, share, half)
    assert kept[1].abs().max() > 0.01
    torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-6 if half else 1e-12)


@pytest.mark.parametrize("count", [1, 2, FRAMES])
@pytest.mark.parametrize("skipped", [False, True])
def test_every_share_gives_the_same_gradients(frames, count, skipped):
    """Of 1 and 2 pictures less than a chunk, of 7 also a rest, and with padding left out fewer."""
    model = tiny(skip_padding=skipped, anchored=True, dense=True)
    parts = (frames.pixels_BTCHW, frames.start_BT, frames.valid_BT, frames.extent_BT2)
    frames = Frames(*(values[:, :count] for values in parts))
    frames = replace(frames, valid_BT=torch.arange(count)[None] % 3 != 1)
    kept = loss_and_gradients(model, frames, 0.0)
    assert kept[1].abs().max() > 0.01
    for share in (0.1, 0.5, 0.9, 1.0):
        again = loss_and_gradients(model, frames, share)
        torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-12)


def test_offloading_gives_the_same_gradients_and_takes_the_per_frame_part_alone(
    frames, monkeypatch
):
    kept, packed = loss_and_gradients(tiny(), frames, 0.0), []

    def hooks(pin_memory):
        assert not pin_memory

        def pack(tensor):
            packed.append(tensor.clone())
            return len(packed) - 1

        return torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__)

    monkeypatch.setattr("models.dds.save_on_cpu", hooks)
    model = tiny(recompute="offload")
    torch.testing.assert_close(loss_and_gradients(model, frames, 0.0), kept, rtol=0, atol=0)
    assert packed
    assert not [tensor for tensor in packed if tensor.shape[-2:] == (5, 16)]  # of queries


@pytest.mark.parametrize("choice", ["all", "-0.1", "1.5", "nan", ""])
def test_what_is_no_share_is_refused(choice):
    with pytest.raises(InputError, match=r"model\.recompute is"):
        recomputed_share(choice)
