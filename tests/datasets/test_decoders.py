import json
import os
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from bload.errors import InputError
from datasets.frames import decode as decoders
from datasets.frames.decode import decode
from datasets.frames.image_header import MAX_PIXELS, DamagedImage, read_header
from tests.datasets.image_making import chunk, encode, jpegs, picture, png_by_hand, pngs

PNGS, JPEGS = pngs(), jpegs()


@pytest.fixture(params=["torchcodec", "pillow"], autouse=True)
def installed(request, monkeypatch):
    """Every claim holds with torchcodec and without it."""
    if request.param == "torchcodec":
        pytest.importorskip("torchcodec")
        assert decoders.decoder_name().startswith("torchcodec")
    else:
        monkeypatch.setattr(decoders, "_torchcodec", lambda: None)
        assert decoders.decoder_name().startswith("Pillow")
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "000001.png"


@pytest.mark.parametrize("kind", PNGS)
def test_every_kind_of_png_gives_its_pixels(path, kind, recwarn):
    data, pixels_hw3 = PNGS[kind]
    path.write_bytes(data)
    frame_Chw = decode(path)
    assert frame_Chw.dtype == torch.uint8
    np.testing.assert_array_equal(frame_Chw.permute(1, 2, 0).numpy(), pixels_hw3)
    assert not recwarn.list


@pytest.mark.parametrize("kind", JPEGS)
def test_every_kind_of_jpeg_gives_the_pixels_of_libjpeg_turbo_as_pillow_calls_it(path, kind):
    path.write_bytes(JPEGS[kind])
    with Image.open(BytesIO(JPEGS[kind])) as image:
        pixels_hw3 = np.array(ImageOps.exif_transpose(image).convert("RGB"))
    np.testing.assert_array_equal(decode(path).permute(1, 2, 0).numpy(), pixels_hw3)


def test_orientation_is_applied(path):
    path.write_bytes(JPEGS["rotated"])
    assert decode(path).shape == (3, 53, 37)


@pytest.mark.parametrize(("kind", "plain"), [("rgb", True), ("rotated", False), ("rgba", False)])
def test_only_plain_images_go_to_torchcodec(kind, plain):
    assert read_header(PNGS[kind][0]).plain is plain


def test_what_torchcodec_refuses_pillow_decides(path, installed, monkeypatch):
    def refuse(data_N, mode):
        raise RuntimeError

    if installed == "torchcodec":
        monkeypatch.setattr(decoders, "_torchcodec", lambda: {"png": refuse})
    data, pixels_hw3 = PNGS["rgb"]
    path.write_bytes(data)
    np.testing.assert_array_equal(decode(path).permute(1, 2, 0).numpy(), pixels_hw3)


def test_a_missing_frame_is_named(path):
    with pytest.raises(InputError, match=rf"{path} is missing; extract it"):
        decode(path)


def test_a_folder_a_pipe_and_a_huge_file_are_not_read(path):
    path.mkdir()
    with pytest.raises(InputError, match=rf"{path} is not a file"):
        decode(path)
    os.mkfifo(path.with_name("pipe"))
    with pytest.raises(InputError, match="pipe is not a file"):
        decode(path.with_name("pipe"))
    with path.with_name("huge").open("wb") as stream:
        stream.truncate(decoders.MAX_BYTES + 1)
    with pytest.raises(InputError, match=f"huge has {decoders.MAX_BYTES + 1} bytes, more than"):
        decode(path.with_name("huge"))


@pytest.mark.parametrize("data", [b"", b"text", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"])
def test_what_is_not_an_image_is_named_with_its_size(path, data):
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"{path} \({len(data)} bytes\) does not decode \("):
        decode(path)


@pytest.mark.parametrize("kind", ["rgb", "palette", "interlaced"])
def test_every_flipped_bit_of_a_png_is_noticed(path, kind):
    whole = PNGS[kind][0]
    for at in range(0, len(whole), 31):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        with pytest.raises(InputError, match="does not decode"):
            decode(path)


@pytest.mark.parametrize("data", [PNGS["rgb"][0], JPEGS["4:2:0"], JPEGS["progressive"]])
def test_every_truncated_image_is_noticed(path, data):
    for length in (*range(0, len(data), 37), len(data) - 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="does not decode"):
            decode(path)


@pytest.mark.parametrize("kind", JPEGS)
def test_the_header_of_a_jpeg_is_not_read_without_its_end(kind):
    assert read_header(JPEGS[kind]).format == "jpeg"
    with pytest.raises(DamagedImage, match="it is truncated"):
        read_header(JPEGS[kind][:-1])


def test_a_small_file_that_says_it_is_huge_is_not_decoded(path):
    side = 2**13 + 1
    bomb = png_by_hand(picture(1, 1), 2)
    bomb = bomb[:8] + chunk(b"IHDR", struct.pack(">II", side, side) + bomb[24:29]) + bomb[33:]
    path.write_bytes(bomb)
    with pytest.raises(InputError, match=f"{side} x {side} pixels, more than {MAX_PIXELS}"):
        decode(path)
    jpeg = bytearray(JPEGS["4:2:0"])
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", side, side)
    path.write_bytes(jpeg)
    with pytest.raises(InputError, match=f"{side} x {side} pixels, more than {MAX_PIXELS}"):
        decode(path)


def test_an_image_without_pixels_is_refused(path):
    path.write_bytes(png_by_hand(np.zeros((0, 5, 3), np.uint8), 2))
    with pytest.raises(InputError, match="5 x 0 pixels"):
        decode(path)


@pytest.mark.parametrize("count", [400, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_damaged_images_decode_or_raise_the_sentence_and_crash_nothing(
    tmp_path, kind, count, installed
):
    images = [data for data, _ in PNGS.values()] if kind == "png" else list(JPEGS.values())
    images.append(encode(picture(3, 2), kind.upper()))
    for number, data in enumerate(images):
        (tmp_path / f"{number:02d}").write_bytes(data)
    run = subprocess.run(
        [sys.executable, "-m", "tests.datasets.fuzzing", str(tmp_path), installed, str(count)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["refused"] == 0
    assert told["decoded"] + told["refused and named"] == count
    assert told["decoded"] > 0 < told["refused and named"]
