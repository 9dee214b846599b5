"""Encoded images of every kind the decoders meet, and what their pixels are."""

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2))
ADAM7 += ((1, 0, 2, 1),)
ROTATED = Image.Exif()
ROTATED[0x0112] = 6


def picture(h: int = 37, w: int = 53) -> np.ndarray:
    """Slopes and a noisy patch, uint8 ``(h, w, 3)``."""
    y, x = np.mgrid[:h, :w]
    pixels_hw3 = np.stack([x * 6 % 256, y * 9 % 256, x * y % 256], axis=-1).astype(np.uint8)
    patch = pixels_hw3[h // 4 : h // 2, w // 4 : w // 2]
    patch[...] = np.random.default_rng(0).integers(0, 256, patch.shape, dtype=np.uint8)
    return pixels_hw3


def encode(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options) -> bytes:
    """A file by Pillow."""
    stream = BytesIO()
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


def png_by_hand(
    pixels_hwC: np.ndarray, colour: int, *, interlaced: bool = False, extra: bytes = b""
) -> bytes:
    """A PNG of kinds that Pillow does not write: interlaced, 16 bits a sample, rare chunks."""
    h, w, _ = pixels_hwC.shape
    depth = pixels_hwC.dtype.itemsize * 8
    ordered = pixels_hwC.astype(">u2") if depth == 16 else pixels_hwC
    rows = b""
    for top, left, down, right in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = ordered[top::down, left::right]
        rows += b"".join(b"\0" + row.tobytes() for row in part if part.size)
    header = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced)
    return (
        PNG_SIGNATURE
        + chunk(b"IHDR", header)
        + extra
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def pngs() -> dict[str, tuple[bytes, np.ndarray]]:
    """By kind: a file, and its pixels as uint8 RGB ``(h, w, 3)``."""
    rgb = picture()
    grey = rgb[..., 0]
    grey3 = np.repeat(grey[..., None], 3, axis=-1)
    wide = np.random.default_rng(1).integers(0, 2**16, rgb.shape, dtype=np.uint16)
    wide_grey3 = np.repeat(wide[..., :1], 3, axis=-1)
    clear = np.concatenate([rgb, rgb[..., :1]], axis=-1)
    palette = Image.fromarray(rgb).quantize(16)
    colours_hw3 = np.array(palette.convert("RGB"))
    black_white = np.repeat((grey > 99)[..., None], 3, axis=-1) * np.uint8(255)
    key = chunk(b"tRNS", struct.pack(">HHH", *rgb[0, 0].tolist()))
    gamma = chunk(b"gAMA", struct.pack(">I", 100_000))
    return {
        "rgb": (encode(rgb), rgb),
        "rgba": (encode(clear), rgb),
        "grey": (encode(grey), grey3),
        "grey and alpha": (encode(np.stack([grey, rgb[..., 1]], axis=-1)), grey3),
        "palette": (encode(palette), colours_hw3),
        "palette of 4 bits": (encode(palette, bits=4), colours_hw3),
        "palette, transparent": (encode(palette, transparency=bytes([0, 99] * 8)), colours_hw3),
        "1 bit": (encode(Image.fromarray(grey > 99)), black_white),
        "16 bits": (png_by_hand(wide, 2), (wide >> 8).astype(np.uint8)),
        "16 bits, grey": (png_by_hand(wide[..., :1], 0), (wide_grey3 >> 8).astype(np.uint8)),
        "interlaced": (png_by_hand(rgb, 2, interlaced=True), rgb),
        "interlaced grey": (png_by_hand(rgb[..., :1], 0, interlaced=True), grey3),
        "one colour transparent": (png_by_hand(rgb, 2, extra=key), rgb),
        "with gamma": (png_by_hand(rgb, 2, extra=gamma), rgb),
        "rotated": (encode(rgb, exif=ROTATED), np.rot90(rgb, -1)),
    }


def jpegs() -> dict[str, bytes]:
    """Files by kind."""
    rgb = Image.fromarray(picture())
    return {
        "4:4:4": encode(rgb, "JPEG", quality=90, subsampling=0),
        "4:2:2": encode(rgb, "JPEG", quality=90, subsampling=1),
        "4:2:0": encode(rgb, "JPEG", quality=90, subsampling=2),
        "low quality": encode(rgb, "JPEG", quality=5),
        "grey": encode(rgb.convert("L"), "JPEG"),
        "progressive": encode(rgb, "JPEG", progressive=True),
        "cmyk": encode(rgb.convert("CMYK"), "JPEG"),
        "rgb kept": encode(rgb, "JPEG", keep_rgb=True),
        "restarts": encode(rgb, "JPEG", restart_marker_rows=1),
        "rotated": encode(rgb, "JPEG", exif=ROTATED),
    }
