"""Decoding of image files, which may hold anything, with Pillow.

A PNG has a checksum for every chunk, which Pillow's `verify` checks before pixels are made. A JPEG
has none: truncation is noticed, but a flipped bit in its data gives wrong pixels.

h x w pixels, C channels.
"""

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from bload import InputError
from datasets.files import plain_file, reading

REMEDY = "extract or copy it again"
warnings.simplefilter("error", Image.DecompressionBombWarning)


def decode(path: Path) -> np.ndarray:
    """Return the pixels of a PNG or JPEG, known by its content, as RGB uint8 ``(h, w, 3)``.

    Transparency is dropped, 16-bit samples keep their high byte, an EXIF orientation is applied.
    Raises `InputError` naming the path if it is missing or does not decode.
    """
    data = read_file(path)
    check_image(data, path)
    with reading(path, REMEDY), Image.open(BytesIO(data)) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return np.array(_rgb(image))


def check_image(data: bytes, path: Path) -> tuple[int, int]:
    """Return the size (h, w) in the header of a PNG or JPEG, without making pixels.

    Raises `InputError` naming `path` for another kind of file, a claimed size of more than Pillow's
    89 million pixels, a PNG with a wrong checksum, and a file that is not whole.
    """
    with reading(path, REMEDY), Image.open(BytesIO(data), formats=("PNG", "JPEG")) as image:
        if image.format == "JPEG" and b"\xff\xd9" not in data:
            raise ValueError("it is truncated")
        image.verify()
        return image.height, image.width


def read_file(path: Path) -> bytes:
    """Return the bytes of a frame's file; raises `InputError` if it is missing or not plain."""
    if not path.exists():
        raise InputError(
            f"frame {path} is missing; extract it with python -m datasets.prepare, or leave it out "
            "of the annotations"
        )
    return plain_file(path).read_bytes()


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow would clip 16-bit grey at 255.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        # The detour keeps Pillow from warning that transparency is lost.
        image = image.convert("RGBA")
    return image.convert("RGB")
