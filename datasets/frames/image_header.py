"""What the bytes of a PNG or JPEG file tell before any decoder sees them.

Format, size, and whether the file is whole, as far as its format lets one know. A PNG has a
checksum for every chunk: all are checked, so damaged data reach no decoder. A JPEG has none: its
markers are walked and its end must be there, but a flipped bit in its data shows as wrong pixels.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Literal

MAX_BYTES = 2**28
"""Size of the largest file that is read."""

MAX_PIXELS = 2**26
"""Height x width of the largest image that is decoded: 8192 x 8192."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
_HARMLESS_CHUNKS = {b"IHDR", b"IDAT", b"IEND", b"pHYs", b"tIME", b"sRGB", b"gAMA", b"cHRM", b"cICP"}
_COMMON_SEGMENTS = {0xDB, 0xC4, 0xDD, 0xE0, 0xEE, 0xFE}
"""Quantisation, Huffman tables, restarts, JFIF, Adobe, comment."""
_FRAME_SEGMENTS = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, b"\xff\xd9"


class DamagedImage(ValueError):
    """What is wrong with the bytes of an image, in a few words."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """`plain` images hold what all decoders read alike; the others are rare kinds."""

    format: Literal["png", "jpeg"]
    size_hw: tuple[int, int]
    plain: bool


def read_header(data: bytes) -> ImageHeader:
    """Header of the image in `data`; `DamagedImage` if it is none, too large or not whole."""
    if data.startswith(_PNG_SIGNATURE):
        header = _read_png(data)
    elif data.startswith(_JPEG_SIGNATURE):
        header = _read_jpeg(data)
    else:
        raise DamagedImage("not a PNG or JPEG image")
    height, width = header.size_hw
    if not height * width:
        raise DamagedImage(f"its header says {width} x {height} pixels")
    if height * width > MAX_PIXELS:
        raise DamagedImage(
            f"its header says {width} x {height} pixels, more than {MAX_PIXELS} in all"
        )
    return header


def _read_png(data: bytes) -> ImageHeader:
    view, names, at = memoryview(data), set(), len(_PNG_SIGNATURE)
    name, first = b"", b""
    while name != b"IEND":
        if at + 12 > len(data):
            raise DamagedImage("it is truncated")
        (size,) = struct.unpack_from(">I", data, at)
        end = at + 8 + size
        if end + 4 > len(data):
            raise DamagedImage("it is truncated")
        name = data[at + 4 : at + 8]
        if struct.unpack_from(">I", data, end)[0] != zlib.crc32(view[at + 4 : end]):
            raise DamagedImage(f"the checksum of its chunk at byte {at} does not match")
        first = first or data[at + 4 : end]
        names.add(name)
        at = end + 4
    if len(first) != 17 or not first.startswith(b"IHDR") or b"IDAT" not in names:
        raise DamagedImage("it has no header or no data")
    width, height, depth, colour, *_, interlaced = struct.unpack(">IIBBBBB", first[4:])
    plain = (depth, colour, interlaced) == (8, 2, 0) and names <= _HARMLESS_CHUNKS
    return ImageHeader("png", (height, width), plain)


def _read_jpeg(data: bytes) -> ImageHeader:
    at, size_hw, plain = 2, None, True
    while True:
        if at + 4 > len(data):
            raise DamagedImage("it is truncated")
        if data[at] != 0xFF:
            raise DamagedImage(f"it has no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker == _START_OF_SCAN:
            break
        if marker in _FRAME_SEGMENTS:
            if length < 8 or at + 10 > len(data):
                raise DamagedImage("it has no size")
            depth, height, width, colours = struct.unpack_from(">BHHB", data, at + 4)
            plain &= size_hw is None and marker in (0xC0, 0xC1, 0xC2)
            plain &= depth == 8 and colours in (1, 3)
            size_hw = size_hw or (height, width)
        else:
            plain &= marker in _COMMON_SEGMENTS
        at += 2 + max(length, 2)
    if size_hw is None:
        raise DamagedImage("it has no size")
    if data.rfind(_END_OF_IMAGE, at) < 0:
        raise DamagedImage("it is truncated")
    return ImageHeader("jpeg", size_hw, plain)
