import os
import random
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageOps

from bload.errors import InputError
from datasets.frames.decode import MAX_BYTES, MAX_PIXELS, check_image, decode, decode_image
from tests.datasets.frames.image_making import (
    chunk,
    encode,
    jpegs,
    picture,
    png_by_hand,
    pngs,
)

PNGS, JPEGS = pngs(), jpegs()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "000001.png"


def test_every_kind_of_png_gives_its_pixels(path, recwarn):
    for kind, (data, pixels_hw3) in PNGS.items():
        path.write_bytes(data)
        frame_hw3 = decode(path)
        assert frame_hw3.dtype == np.uint8
        np.testing.assert_array_equal(frame_hw3, pixels_hw3, kind)
    assert not recwarn.list


def test_every_kind_of_jpeg_gives_the_pixels_of_libjpeg_turbo_as_pillow_calls_it(path):
    for kind, data in JPEGS.items():
        with Image.open(BytesIO(data)) as image:
            pixels_hw3 = np.array(ImageOps.exif_transpose(image).convert("RGB"))
        np.testing.assert_array_equal(decode_image(data, path), pixels_hw3, kind)
    assert decode_image(JPEGS["rotated"], path).shape == (53, 37, 3), "orientation is applied"


def test_the_size_is_known_without_pixels(path):
    for data in [data for data, _ in PNGS.values()] + list(JPEGS.values()):
        assert check_image(data, path) == (37, 53)


def test_what_is_no_file_is_not_read(path):
    with pytest.raises(InputError, match=rf"{path} is missing; extract it"):
        decode(path)
    path.mkdir()
    os.mkfifo(path.with_name("pipe"))
    with path.with_name("huge").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    for name in (path.name, "pipe", "huge"):
        with pytest.raises(InputError, match=rf"{name} is no file of at most {MAX_BYTES} bytes"):
            decode(path.with_name(name))


def refused(data, path, match="does not decode"):
    for function in (check_image, decode_image):
        with pytest.raises(InputError, match=match):
            function(data, path)


def test_what_is_not_an_image_is_named_with_its_size(path):
    gif = encode(Image.new("RGB", (4, 4)), "GIF")
    for data in (b"", b"text", gif, b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"):
        refused(data, path, rf"{path} \({len(data)} bytes\) does not decode \(")
    refused(png_by_hand(np.zeros((0, 5, 3), np.uint8), 2), path)


def test_no_flipped_bit_of_a_png_changes_pixels(path):
    for kind in ("rgb", "palette", "interlaced"):
        whole, pixels_hw3 = PNGS[kind]
        end = whole.index(b"IEND") - 4
        for at in range(0, len(whole), 31):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            if at < end:
                refused(bytes(flipped), path)
            else:  # nothing but the mark of the end
                np.testing.assert_array_equal(decode_image(bytes(flipped), path), pixels_hw3)


def test_every_truncated_image_is_noticed(path):
    for data in (PNGS["rgb"][0], JPEGS["4:2:0"], JPEGS["progressive"]):
        last = 5 if data.startswith(b"\x89") else 1  # a PNG ends in the checksum of nothing
        for length in (*range(0, len(data), 37), len(data) - last - 1, len(data) - last):
            refused(data[:length], path)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_small_file_that_says_it_is_huge_is_not_decoded(path):
    jpeg = bytearray(JPEGS["4:2:0"])
    at = jpeg.index(b"\xff\xc0")
    header = png_by_hand(picture(1, 1), 2)
    for side in (2**13 + 1, 9_999, 2**14):  # Pillow warns of the second, refuses the third
        size = struct.pack(">II", side, side)
        png = header[:8] + chunk(b"IHDR", size + header[24:29]) + header[33:]
        jpeg[at + 5 : at + 9] = struct.pack(">HH", side, side)
        for data in (png, bytes(jpeg)):
            refused(data, path, f"{side} x {side} pixels are more than {MAX_PIXELS}|bomb")


def damage(data, rng):
    """`data` with flipped bits, or cut, or with some bytes taken out or put in."""
    damaged, kind = bytearray(data), rng.randrange(5)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(damaged))
        if kind <= 1:
            damaged[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del damaged[max(at, 1) :]
        elif kind == 3:
            del damaged[max(at, 1) : at + rng.randrange(1, 20)]
        else:
            damaged[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(damaged)


def with_sound_checksums(data):
    """The PNG `data` with the checksum of each whole chunk written anew."""
    sound, at = bytearray(data), 8
    while at + 12 <= len(data):
        end = at + 8 + struct.unpack_from(">I", data, at)[0]
        if end + 4 > len(data):
            break
        sound[end : end + 4] = struct.pack(">I", zlib.crc32(data[at + 4 : end]))
        at = end + 4
    return bytes(sound)


@pytest.mark.filterwarnings("ignore")  # Pillow's about EXIF
@pytest.mark.parametrize("count", [1_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_damaged_images_decode_or_raise_the_sentence(path, count):
    """Half of the damaged PNGs get sound checksums again, so that the damage reaches pixels."""
    images = [data for data, _ in PNGS.values()] + list(JPEGS.values())
    images += [encode(picture(3, 2), "PNG"), encode(picture(3, 2), "JPEG")]
    decoded, refusals = 0, []
    for number in range(count):
        rng = random.Random(number)
        data = damage(rng.choice(images), rng)
        if rng.random() < 0.5 and data.startswith(b"\x89PNG"):
            data = with_sound_checksums(data)
        try:
            decode_image(data, path)
            decoded += 1
        except InputError as error:
            refusals.append(str(error))
    assert decoded > 0 < len(refusals)
    assert all(str(path) in refusal for refusal in refusals)
