"""Pictures of several sizes on one canvas: what is beside a picture never matters.

B blocks, T slots, I pictures, S tokens. A canvas has 32 pixels a side, a token of `conv` 8.
"""

import pytest
import torch

from models.extent import cells_inside
from models.network_input import NetworkInput
from tests.models.conftest import SIDE, gradients, loss_of, tiny

KINDS = (
    {"anchored": True, "dense": True},
    {"norm_first": False},
    {"backbone": "resnet18", "norm_first": False},
)
SIZES = ((32, 32), (24, 16), (16, 32), (8, 24), (21, 13), (32, 9))
"""(width, height) in pixels of the pictures of a batch."""


def letterboxed(sizes=SIZES):
    """One block of pictures at random ``(1, T, 3, 32, 32)``, its starts and its extents."""
    draw = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (1, len(sizes), 3, SIDE, SIDE), generator=draw).double()
    start_BT = torch.arange(len(sizes))[None] % 3 == 0
    return frames, start_BT, torch.tensor([sizes]) / SIDE


def beside(sizes=SIZES) -> torch.Tensor:
    """True on pixels that are not of the picture, ``(1, T, 1, 32, 32)``."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return torch.stack([(x >= w) | (y >= h) for w, h in sizes])[None, :, None]


def loss_and_gradients(model, batch, valid_BT):
    frames, start_BT, extent_BT2 = batch
    loss = loss_of(model(NetworkInput(frames, start_BT, valid_BT, extent_BT2)), valid_BT)
    loss.backward()
    return loss.detach(), gradients(model)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_beside_a_picture_do_not_matter(kind):
    model = tiny(**kind)
    frames, start_BT, extent_BT2 = letterboxed()
    valid_BT = torch.tensor([[True] * 5 + [False]])
    # Nor does the extent of padding, even if it is none.
    no_extent = extent_BT2.masked_fill(~valid_BT[..., None], 0)
    wanted = loss_and_gradients(model, (frames, start_BT, extent_BT2), valid_BT)
    changed = frames.masked_fill(beside(), float("nan"))
    found = loss_and_gradients(model, (changed, start_BT, no_extent), valid_BT)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert torch.isfinite(found[1]).all()
    # Without extents they do matter.
    changed = frames.masked_fill(beside(), 255)
    blind = loss_and_gradients(model, (changed, start_BT, None), valid_BT)
    assert abs(blind[0] - wanted[0]) > 1e-3


@pytest.mark.parametrize(("kind", "size"), [(KINDS[0], (32, 16)), (KINDS[1], (24, 32))])
def test_whole_tokens_on_a_canvas_equal_the_picture_cropped(kind, size):
    """To the rounding of points, which are float32."""
    model = tiny(**kind)
    frames, start_BT, extent_BT2 = letterboxed((size,) * 6)
    width, height = size
    valid_BT, batch = torch.ones_like(start_BT), (frames[..., :height, :width], start_BT, None)
    wanted = loss_and_gradients(model, batch, valid_BT)
    found = loss_and_gradients(model, (frames, start_BT, extent_BT2), valid_BT)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("canvas", [(32, 32), (33, 27), (40, 32)])
def test_features_of_conv_are_those_of_the_picture_cropped_at_any_size(canvas):
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


def test_a_float32_extent_loses_no_pixel_and_no_token():
    for side in (480, 1000, 1333):
        length = torch.arange(1, side + 1)
        extent_I2 = torch.stack((length / side, torch.ones(side)), dim=-1)
        assert torch.equal(cells_inside(extent_I2, 1, side).sum((1, 2)), length)
        tokens = (length + 31) // 32
        too_many = cells_inside(extent_I2, 1, int(tokens[-1])).sum((1, 2)) - tokens
        # Tokens share a canvas evenly, so on 1,333 pixels they are 31.7 wide, not 32.
        assert too_many.unique().tolist() == ([0] if side % 32 == 0 else [0, 1])
