import numpy as np
import pytest
import torch
from PIL import Image

from bload.errors import InputError
from datasets.frames import read_frames

NAME = "A.mp4/000001.png"


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "frames" / NAME
    path.parent.mkdir(parents=True)
    pixels_HW3 = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels_HW3).save(path)
    return path, pixels_HW3


def test_pixels_come_back_unchanged_at_their_own_size(tmp_path, picture):
    frames_TCHW = read_frames(tmp_path, [NAME, NAME], (24, 40))
    assert frames_TCHW.shape == (2, 3, 24, 40)
    assert frames_TCHW.dtype == torch.uint8
    np.testing.assert_array_equal(frames_TCHW[1].permute(1, 2, 0).numpy(), picture[1])


def test_another_size_is_resized(tmp_path, picture):
    frames_TCHW = read_frames(tmp_path, [NAME], (12, 16))
    assert frames_TCHW.shape == (1, 3, 12, 16)
    assert abs(frames_TCHW.float().mean() - picture[1].mean()) < 3


def test_grey_images_get_three_channels(tmp_path, picture):
    Image.fromarray(picture[1][..., 0]).save(picture[0])
    frames_TCHW = read_frames(tmp_path, [NAME], (24, 40))
    assert (frames_TCHW[0, 0] == frames_TCHW[0, 2]).all()


def test_a_missing_frame_is_named(tmp_path):
    with pytest.raises(InputError, match=rf"{NAME} is missing; extract it"):
        read_frames(tmp_path, [NAME], (24, 40))


def test_a_truncated_empty_or_corrupt_frame_is_named_and_never_replaced(tmp_path, picture):
    path, _ = picture
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], whole[:30], b"", b"text", bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{NAME} \({len(content)} bytes\) does not decode"):
            read_frames(tmp_path, [NAME], (24, 40))


def test_a_name_that_leaves_the_root_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not of the form"):
        read_frames(tmp_path, ["../000001.png"], (24, 40))
