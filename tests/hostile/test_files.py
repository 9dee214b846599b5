"""Files: what they hold, or one sentence."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bload.errors import InputError
from datasets.annotations.unpickler import read_pickle
from datasets.frames.decode import decode
from datasets.frames.manifest import read_manifest
from datasets.scoring.predictions_file import read_metadata
from tests.hostile.conftest import hostile
from tests.hostile.damage import damaged
from training.folder import metric_lines, read_object


def image(kind: str, mode: str = "RGB", **options) -> bytes:
    """A picture of 24 x 16 pixels."""
    stream = io.BytesIO()
    Image.effect_noise((24, 16), 50).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG with its right checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour: int, data: bytes, *more: bytes) -> bytes:
    """A PNG that says so, whatever its data are."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = (chunk(b"IHDR", header), *more, chunk(b"IDAT", data), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


WHOLE = [
    *(image("PNG"), image("PNG", "P"), image("PNG", "L"), image("PNG", "RGBA")),
    *(image("JPEG"), image("JPEG", progressive=True), image("JPEG", "CMYK")),
    *(image("WEBP"), image("GIF"), image("TIFF"), image("BMP")),
]
BOMB = zlib.compress(bytes(10**7), 9)
SIDES = st.sampled_from([0, 1, 24, 9_000, 50_000, 2**31 - 1])
PNGS = st.builds(
    png,
    SIDES,
    SIDES,
    st.sampled_from([1, 8, 16, 0, 255]),
    st.sampled_from([0, 2, 3, 4, 6, 9]),
    st.sampled_from([BOMB, b"", zlib.compress(bytes(24 * 73))]),
    st.sampled_from([chunk(b"zTXt", b"a\0\0" + BOMB), chunk(b"iCCP", b"a\0\0" + BOMB)])
    | st.builds(lambda data: chunk(b"eXIf", data), st.binary(max_size=60))
    | st.builds(lambda data: chunk(b"PLTE", data), st.binary(max_size=60)),
)
IMAGES = st.one_of(*(damaged(whole) for whole in WHOLE), PNGS, st.binary(max_size=100))


@hostile(0.31)
@given(content=IMAGES)
@pytest.mark.filterwarnings("ignore")
def test_a_frame_is_pixels_or_refused(refused_or, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "000001.png"
    path.write_bytes(content)
    pixels = refused_or(decode, path)
    if pixels is not None:
        assert (pixels.dtype, pixels.ndim, pixels.shape[2]) == (np.uint8, 3, 3)


READERS = {
    "frame": decode,
    "annotations": read_pickle,
    "frames": lambda path: read_manifest(path.parent),
    "predictions": read_metadata,
    "config": read_object,
    "metrics": lambda path: [*metric_lines(path)],
}


@pytest.mark.parametrize("kind", READERS)
def test_a_device_in_place_of_a_file_is_refused_and_not_read(kind, tmp_path):
    (tmp_path / "manifest.json").symlink_to(os.devnull)
    with pytest.raises(InputError, match=r"manifest.json is a folder, a pipe or a device"):
        READERS[kind](tmp_path / "manifest.json")
