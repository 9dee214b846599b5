"""Pictures of several sizes on one canvas: what is beside a picture never matters.

B blocks, T slots, I pictures, S tokens. A canvas has 32 pixels a side, a token of `conv` 8.
"""

from dataclasses import fields

import numpy as np
import pytest
import torch

import models.recompute
from models import Criterion, Outputs, counts, to_tensors
from models.extent import cell_points, cells_inside
from tests.models.conftest import SIDE

KINDS = [
    {"anchored": True, "dense": True},
    {"norm_first": False},
    {"backbone": "resnet18", "norm_first": False},
]
SIZES = ((32, 32), (24, 16), (16, 32), (8, 24), (21, 13), (32, 9))
"""(width, height) in pixels of the pictures of a batch."""


def letterboxed(sizes=SIZES):
    """One block of pictures at random ``(1, T, 3, 32, 32)``, its starts and its extents."""
    draw = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (1, len(sizes), 3, SIDE, SIDE), generator=draw).double()
    start_BT = torch.arange(len(sizes))[None] % 3 == 0
    return frames, start_BT, torch.tensor([sizes]) / SIDE


def beside(sizes=SIZES) -> torch.Tensor:
    """Which pixels are not of the picture, ``(1, T, 1, 32, 32)``."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return torch.stack([(x >= w) | (y >= h) for w, h in sizes])[None, :, None]


def tensors(outputs: Outputs) -> dict[str, torch.Tensor]:
    return {field.name: getattr(outputs, field.name) for field in fields(Outputs)[:5]}


def loss_and_gradients(model, batch, valid_BT, annotate):
    frames, start_BT, extent_BT2 = batch
    targets = to_tensors(annotate(np.random.default_rng(0), int(valid_BT.sum())))
    outputs = model(frames, start_BT, valid_BT, extent_BT2=extent_BT2)
    loss = Criterion()(outputs, targets, valid_BT, counts(targets, 5))["loss"]
    model.zero_grad(set_to_none=True)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [0, 255, float("nan")])
def test_pixels_beside_a_picture_do_not_matter(tiny, annotate, kind, content):
    model = tiny(**kind)
    frames, start_BT, extent_BT2 = letterboxed()
    valid_BT = torch.tensor([[True] * 5 + [False]])
    changed = frames.masked_fill(beside(), content)
    # Nor does the extent of padding, even if it is none.
    no_extent = extent_BT2.masked_fill(~valid_BT[..., None], 0)
    wanted = loss_and_gradients(model, (frames, start_BT, extent_BT2), valid_BT, annotate)
    found = loss_and_gradients(model, (changed, start_BT, no_extent), valid_BT, annotate)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert all(torch.isfinite(gradient).all() for gradient in found[1].values())
    if content == 255:  # without extents they do matter
        blind = loss_and_gradients(model, (changed, start_BT, None), valid_BT, annotate)
        assert abs(blind[0] - wanted[0]) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_several_sizes_equals_each_picture_alone(tiny, kind):
    model = tiny(**kind)
    frames, _, extent_BT2 = letterboxed()
    start_BT = torch.ones(1, len(SIZES), dtype=torch.bool)
    together = tensors(model(frames, start_BT, extent_BT2=extent_BT2))
    for slot in range(len(SIZES)):
        one = slice(slot, slot + 1)
        alone = model(frames[:, one], start_BT[:, one], extent_BT2=extent_BT2[:, one])
        for name, field in tensors(alone).items():
            assert (field - together[name][:, :, one]).abs().max() < 1e-12, (slot, name)


@pytest.mark.parametrize("kind", KINDS)
def test_full_extents_equal_none(tiny, annotate, kind):
    model = tiny(**kind)
    frames, start_BT, _ = letterboxed()
    full_BT2, valid_BT = torch.ones(1, len(SIZES), 2), torch.ones_like(start_BT)
    wanted = loss_and_gradients(model, (frames, start_BT, None), valid_BT, annotate)
    found = loss_and_gradients(model, (frames, start_BT, full_BT2), valid_BT, annotate)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)  # points are float32


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("size", [(32, 16), (8, 8), (24, 32)])
def test_whole_tokens_on_a_canvas_equal_the_picture_cropped(tiny, annotate, kind, size):
    """With `conv`: to the rounding of points, which are float32."""
    model = tiny(**kind)
    frames, start_BT, extent_BT2 = letterboxed((size,) * 6)
    width, height = size
    cropped = tensors(model(frames[..., :height, :width], start_BT))
    on_canvas = tensors(model(frames, start_BT, extent_BT2=extent_BT2))
    torch.testing.assert_close(on_canvas, cropped, rtol=0, atol=1e-5)
    valid_BT, batch = torch.ones_like(start_BT), (frames[..., :height, :width], start_BT, None)
    wanted = loss_and_gradients(model, batch, valid_BT, annotate)
    found = loss_and_gradients(model, (frames, start_BT, extent_BT2), valid_BT, annotate)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("canvas", [(32, 32), (33, 27), (40, 32)])
def test_features_of_conv_are_those_of_the_picture_cropped_at_any_size(tiny, canvas):
    backbone = tiny().backbone
    torch.nn.init.normal_(backbone[1].bias)  # else little of what is beside would be left to see
    for width, height in ((canvas[0] - 1, 16), (13, canvas[1]), (1, 1), (9, 17)):
        pixels = torch.randn(2, 3, canvas[1], canvas[0], dtype=torch.float64)
        inside = torch.zeros(2, canvas[1], canvas[0], dtype=torch.bool)
        inside[:, :height, :width] = True
        cropped = backbone(pixels[..., :height, :width])
        on_canvas = backbone(pixels.masked_fill(~inside[:, None], 0), inside)
        rows, columns = cropped.shape[-2:]
        torch.testing.assert_close(on_canvas[..., :rows, :columns], cropped)
        assert not on_canvas[..., rows:, :].any()
        assert not on_canvas[..., columns:].any()


def test_recomputed_pictures_keep_their_extents(tiny, annotate, monkeypatch):
    monkeypatch.setattr(models.recompute, "CHUNK", 4)
    model = tiny(anchored=True, dense=True)
    batch, valid_BT = letterboxed(), torch.ones(1, len(SIZES), dtype=torch.bool)
    kept = loss_and_gradients(model, batch, valid_BT, annotate)
    model.recompute = True
    recomputed = loss_and_gradients(model, batch, valid_BT, annotate)
    torch.testing.assert_close(recomputed, kept, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("temporal", ["dds", "attention"])
def test_letterboxed_blocks_train_under_autocast(tiny, annotate, temporal):
    model = tiny(anchored=True, dense=True, temporal=temporal).float()
    frames, start_BT, extent_BT2 = letterboxed()
    batch, valid_BT = (frames.float(), start_BT, extent_BT2), torch.ones_like(start_BT)
    exact, _ = loss_and_gradients(model, batch, valid_BT, annotate)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, gradients = loss_and_gradients(model, batch, valid_BT, annotate)
    assert rounded.item() == pytest.approx(exact.item(), rel=0.05)
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize("side", [480, 1000, 1333])
def test_a_float32_extent_loses_no_pixel_and_no_token(side):
    length = torch.arange(1, side + 1)
    extent_I2 = torch.stack((length / side, torch.ones(side)), dim=-1)
    assert torch.equal(cells_inside(extent_I2, 1, side).sum((1, 2)), length)
    tokens = (length + 31) // 32
    too_many = cells_inside(extent_I2, 1, int(tokens[-1])).sum((1, 2)) - tokens
    # Tokens share a canvas evenly, so on 1,333 pixels they are 31.7 wide, not 32.
    assert too_many.unique().tolist() == ([0] if side % 32 == 0 else [0, 1])


def test_points_are_shares_of_the_picture():
    extent_I2 = torch.tensor([[0.5, 1.0], [0.625, 0.25]])
    x, y = cell_points(extent_I2, 4, 4, 0.5).view(2, 4, 4, 2).unbind(-1)
    torch.testing.assert_close(x[0, 0], torch.tensor([0.25, 0.75, 1, 1]))
    torch.testing.assert_close(y[0, :, 0], torch.tensor([0.125, 0.375, 0.625, 0.875]))
    # Of the third token half a token is in the picture: from 2 / 2.5 to its end.
    torch.testing.assert_close(x[1, 0], torch.tensor([0.2, 0.6, 0.9, 1]))
    torch.testing.assert_close(y[1, :, 0], torch.tensor([0.5, 1, 1, 1]))
    ends = cell_points(extent_I2, 4, 4, 1.0).view(2, 4, 4, 2)
    torch.testing.assert_close(ends[1, 0, :, 0], torch.tensor([0.4, 0.8, 1, 1]))
