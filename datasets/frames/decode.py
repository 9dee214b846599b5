"""Decoding of image files with Pillow.

A PNG has a checksum for every chunk, which Pillow's `verify` checks before pixels are made. A JPEG
has none: truncation is noticed, but a flipped bit in its data gives wrong pixels.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from bload import InputError
from datasets.files import reading

KINDS = ("PNG", "JPEG")


def decode(path: Path) -> np.ndarray:
    """Return the pixels of a PNG or JPEG, known by its content, as RGB uint8 ``(h, w, 3)``.

    Transparency is dropped. Raises `InputError` naming the path if it is missing or damaged.
    """
    if not path.exists():
        raise InputError(
            f"frame {path} is missing; extract it with python -m datasets.prepare, or leave it out "
            "of the annotations"
        )
    with reading(path, "extract or copy it again"):
        data = path.read_bytes()
        with Image.open(BytesIO(data), formats=KINDS) as image:
            image.verify()
        with Image.open(BytesIO(data), formats=KINDS) as image:
            return np.array(image.convert("RGB"))
