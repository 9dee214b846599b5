from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.annotations.read import PERSONS_FILE
from datasets.frames.files import decode
from tests.datasets.annotations.making import edit
from tests.datasets.box_root import open_root, write_box_root

RGB = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
RGB[:, 20:] = np.add.outer(np.arange(37), 3 * np.arange(33))[..., None]


def encode(pixels, kind="PNG", **options):
    """A file by Pillow."""
    stream = BytesIO()
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "000001.png"


def test_every_kind_of_image_gives_its_pixels(path):
    grey, palette = RGB[..., 0], Image.fromarray(RGB).quantize(16)
    jpeg = encode(RGB, "JPEG")
    for data, pixels_hw3 in (
        (encode(RGB), RGB),
        (encode(np.concatenate([RGB, RGB[..., :1]], axis=-1)), RGB),
        (encode(grey), np.stack([grey] * 3, axis=-1)),
        (encode(palette), np.array(palette.convert("RGB"))),
        (jpeg, np.array(Image.open(BytesIO(jpeg)))),
    ):
        path.write_bytes(data)
        assert decode(path).dtype == np.uint8
        np.testing.assert_array_equal(decode(path), pixels_hw3)


def test_what_is_no_image_or_damaged_is_named(path):
    whole, bad = encode(RGB), [b"", b"text", encode(Image.new("RGB", (4, 4)), "GIF")]
    for at in range(0, whole.index(b"IEND") - 4, 31):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        bad.append(bytes(flipped))
    for data in (whole, encode(RGB, "JPEG"), encode(RGB, "JPEG", progressive=True)):
        bad += [data[:length] for length in range(0, len(data) - 20, 37)]
    for data in bad:
        path.write_bytes(data)
        with pytest.raises(InputError, match=rf"{path} cannot be read .*; extract or copy it"):
            decode(path)


NAME = "A.mp4/000004.png"


@pytest.fixture
def root(tmp_path):
    return write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 3)})


def test_a_bad_frame_is_named_and_never_replaced(root):
    path, source = root / "frames" / NAME, open_root(root, "train", (24, 40))
    edit(root, lambda value: [p.update(bbox_size=(64, 48)) for p in value.values()], PERSONS_FILE)
    larger = open_root(root, "train", (24, 40))
    with pytest.raises(InputError, match=r"A.mp4/000001.png is 40 x 24 pixels .* for 64 x 48"):
        larger.read(0, 0, 3)
    path.unlink()
    with pytest.raises(InputError, match=rf"{NAME} is missing"):
        source.read(0, 0, 3)


def test_all_missing_frames_are_reported_together_before_any_is_read(root):
    files = open_root(root, "train", (24, 40)).files
    names = [NAME, "A.mp4/000002.png", *(f"B.mp4/{number:06d}.png" for number in range(1, 5))]
    with pytest.raises(InputError, match=r"missing frames \(5\): A.mp4/000002.png; .* and 2 more"):
        files.check_all_exist(names)
