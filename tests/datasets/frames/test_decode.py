import struct
import warnings
from io import BytesIO
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image, ImageOps

from bload.errors import InputError
from datasets.frames.decode import check_image, decode

ROTATED = Image.Exif()
ROTATED[0x0112] = 6
RGB = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
RGB[:, 20:] = np.add.outer(np.arange(37), 3 * np.arange(33))[..., None]


def encode(pixels, kind="PNG", **options):
    """A file by Pillow."""
    stream = BytesIO()
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    image.save(stream, kind, **options)
    return stream.getvalue()


def pngs():
    """By kind: a file, and its pixels as uint8 RGB ``(h, w, 3)``."""
    grey, clear = RGB[..., 0], np.concatenate([RGB, RGB[..., :1]], axis=-1)
    wide = np.random.default_rng(1).integers(0, 2**16, grey.shape, dtype=np.uint16)
    palette = Image.fromarray(RGB).quantize(16)
    colours_hw3 = np.array(palette.convert("RGB"))
    return {
        "rgb": (encode(RGB), RGB),
        "rgba": (encode(clear), RGB),
        "grey": (encode(grey), np.stack([grey] * 3, axis=-1)),
        "16 bits": (encode(wide), np.stack([wide >> 8] * 3, axis=-1)),
        "palette": (encode(palette), colours_hw3),
        "palette, transparent": (encode(palette, transparency=bytes([0, 99] * 8)), colours_hw3),
        "rotated": (encode(RGB, exif=ROTATED), np.rot90(RGB, -1)),
    }


def jpegs():
    """Files by kind."""
    image = Image.fromarray(RGB)
    return {
        "4:2:0": encode(image, "JPEG", subsampling=2),
        "grey": encode(image.convert("L"), "JPEG"),
        "progressive": encode(image, "JPEG", progressive=True),
        "cmyk": encode(image.convert("CMYK"), "JPEG"),
        "rotated": encode(image, "JPEG", exif=ROTATED),
    }


PNGS, JPEGS = pngs(), jpegs()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "000001.png"


def test_every_kind_of_image_gives_its_pixels_and_its_size(path, recwarn):
    for kind, (data, pixels_hw3) in PNGS.items():
        path.write_bytes(data)
        frame_hw3 = decode(path)
        assert frame_hw3.dtype == np.uint8
        np.testing.assert_array_equal(frame_hw3, pixels_hw3, kind)
        assert check_image(data, path) == (37, 53)
    for kind, data in JPEGS.items():
        with Image.open(BytesIO(data)) as image:
            pixels_hw3 = np.array(ImageOps.exif_transpose(image).convert("RGB"))
        path.write_bytes(data)
        np.testing.assert_array_equal(decode(path), pixels_hw3, kind)
        assert check_image(data, path) == (37, 53)
    assert pixels_hw3.shape == (53, 37, 3), "the last one was rotated"
    assert not recwarn.list


def refused(data, path, match="cannot be read"):
    path.write_bytes(data)
    with pytest.raises(InputError, match=match):
        check_image(data, path)
    with pytest.raises(InputError, match=match):
        decode(path)


def test_no_flipped_bit_of_a_png_changes_pixels(path):
    for kind in ("rgb", "palette"):
        whole, pixels_hw3 = PNGS[kind]
        end = whole.index(b"IEND") - 4
        for at in range(0, len(whole), 31):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            if at < end:
                refused(bytes(flipped), path)
            else:  # nothing but the mark of the end
                path.write_bytes(flipped)
                np.testing.assert_array_equal(decode(path), pixels_hw3)


def test_what_is_no_image_or_not_whole_is_named(path):
    bad = [b"", b"text", encode(Image.new("RGB", (4, 4)), "GIF")]
    for data in (PNGS["rgb"][0], JPEGS["4:2:0"], JPEGS["progressive"]):
        last = 5 if data.startswith(b"\x89") else 1  # a PNG ends in the checksum of nothing
        bad += [data[:length] for length in (*range(0, len(data), 37), len(data) - last)]
    for data in bad:
        refused(data, path, rf"{path} cannot be read .*; extract or copy it again")


def test_a_machine_without_memory_is_not_called_a_damaged_frame(path, monkeypatch):
    path.write_bytes(PNGS["rgb"][0])
    monkeypatch.setattr(Image, "open", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        decode(path)


def test_a_small_file_that_says_it_is_huge_is_not_decoded(path):
    jpeg = bytearray(JPEGS["4:2:0"])
    at = jpeg.index(b"\xff\xc0")
    for side in (9_999, 2**14):  # Pillow warns of the first, refuses the second
        jpeg[at + 5 : at + 9] = struct.pack(">HH", side, side)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            refused(bytes(jpeg), path, "bomb")
