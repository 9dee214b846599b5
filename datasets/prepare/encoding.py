"""How frames are stored: format, quality and size."""

import io
from dataclasses import dataclass
from pathlib import Path

import PIL
from PIL import Image

from bload.errors import InputError
from datasets.frames.manifest import Format
from datasets.frames.sizes import stored_size
from datasets.prepare.checksums import Checksum, checksum_of

JPEG_QUALITY = 95
PNG_LEVEL = 3  # 4 % larger files than zlib's default, written about three times as fast


@dataclass(frozen=True, slots=True)
class Encoding:
    """PNG (exact) or JPEG of a `quality` from 1 to 100, at native size or that of `short_side`."""

    format: Format = "png"
    quality: int | None = None
    short_side: int | None = None

    def __post_init__(self) -> None:
        if self.format == "png" and self.quality is not None:
            raise InputError("PNG has no quality; leave --quality out or add --format jpeg")
        if self.format == "jpeg" and not 1 <= (self.quality or 0) <= 100:
            raise InputError(f"--quality {self.quality} is not between 1 and 100")
        if self.short_side is not None and self.short_side < 1:
            raise InputError(f"--short-side {self.short_side} is not a number of pixels, 1 or more")

    def save(self, image: Image.Image, path: Path) -> Checksum:
        """Write a frame to `path`; returns the checksum of the file."""
        height, width = stored_size((image.height, image.width), self.short_side)
        if (width, height) != image.size:
            image = image.resize((width, height), Image.Resampling.BILINEAR)  # antialiased
        file = io.BytesIO()
        if self.format == "png":
            image.save(file, "PNG", compress_level=PNG_LEVEL)
        else:
            image.save(file, "JPEG", quality=self.quality)
        path.write_bytes(file.getbuffer())
        return checksum_of(file.getvalue())

    def __str__(self) -> str:
        size = "native size" if self.short_side is None else f"short side {self.short_side}"
        return f"PNG, {size}" if self.format == "png" else f"JPEG {self.quality}, {size}"


AS_PUBLISHED = Encoding()
"""PNG of native size, as the official dump."""


def encoder_version() -> str:
    """Program and version, like ``Pillow 12.0.0``."""
    return f"Pillow {PIL.__version__}"
