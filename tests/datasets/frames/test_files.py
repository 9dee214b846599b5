import numpy as np
import pytest
import torch
from PIL import Image

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets
from datasets.frames.files import FrameFiles

NAME = "A.mp4/000001.png"


def target(size_hw=(24, 40)):
    box = np.zeros((1, 4), np.float32)
    return FrameTargets(NAME, size_hw, box[0], box, np.array([5]), np.zeros((0, 2), dtype=np.int64))


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "frames" / NAME
    path.parent.mkdir(parents=True)
    pixels_HW3 = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels_HW3).save(path)
    return path, pixels_HW3


def test_pixels_come_back_unchanged(tmp_path, picture):
    frames_TCHW = FrameFiles(tmp_path).read(0, 0, [target(), target()])
    assert (frames_TCHW.shape, frames_TCHW.dtype) == ((2, 3, 24, 40), torch.uint8)
    np.testing.assert_array_equal(frames_TCHW[1].permute(1, 2, 0).numpy(), picture[1])


def test_a_bad_frame_is_named_and_never_replaced(tmp_path, picture):
    path, files = picture[0], FrameFiles(tmp_path)
    with pytest.raises(InputError, match=rf"{NAME} is 40 x 24 pixels .* asks for 64 x 48"):
        files.read(0, 0, [target((48, 64))])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=rf"{NAME} cannot be read"):
        files.read(0, 0, [target(), target()])
    path.unlink()
    with pytest.raises(InputError, match=rf"{NAME} is missing"):
        files.read(0, 0, [target()])


@pytest.mark.usefixtures("picture")
def test_all_missing_frames_are_reported_together_before_any_is_read(tmp_path):
    files = FrameFiles(tmp_path)
    files.check_all_exist([NAME])
    names = [NAME, "A.mp4/000004.png", *(f"B.mp4/{number:06d}.png" for number in range(1, 5))]
    with pytest.raises(InputError, match=r"missing frames \(5\): A.mp4/000004.png; .* and 2 more"):
        files.check_all_exist(names)
