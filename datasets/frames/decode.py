"""Decoding one image: the same pixels whichever decoder is installed.

torchcodec (0.16 or later, if it is installed) decodes plain PNG and JPEG, in 0.84 and 0.62 of
Pillow's time: results/frame_reading.txt. Pillow decodes the rest, and has the last word on what
torchcodec refuses. torchvision's decoder is not used: most damaged PNGs end it in a segmentation
fault, even with sound checksums, which would kill a loader's worker without naming the frame.

Every file goes through `read_header` first, so damaged PNGs and huge images reach no decoder.

h x w pixels, C channels.
"""

import stat
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image, ImageOps

from bload.errors import InputError
from datasets.frames.image_header import MAX_BYTES, DamagedImage, ImageHeader, read_header

Decoder = Callable[..., torch.Tensor]


def decode(path: Path) -> torch.Tensor:
    """The PNG or JPEG at `path`, known by its content, as uint8 RGB ``(3, h, w)``.

    Transparency is dropped, 16-bit samples keep their high byte, an EXIF orientation is applied.
    Raises `InputError` naming the path for a file that is missing or does not decode.
    """
    return decode_image(_read(path), path)


def decode_image(data: bytes, path: Path) -> torch.Tensor:
    """As `decode`, from the bytes of the file at `path`."""
    try:
        header = read_header(data)
        return _by_torchcodec(data, header) if header.plain else _by_pillow(data)
    except DamagedImage as error:
        raise InputError(
            f"frame {path} ({len(data)} bytes) does not decode ({error}); extract or copy it again"
        ) from error


def decoder_name() -> str:
    """The decoder of plain images here, with its version."""
    if _torchcodec() is None:
        return f"Pillow {PIL.__version__}"
    import torchcodec

    return f"torchcodec {torchcodec.__version__}"


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"frame {path} is not a file; remove it and extract the frame")
        if status.st_size > MAX_BYTES:
            raise InputError(
                f"frame {path} has {status.st_size} bytes, more than {MAX_BYTES}; extract it again"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"frame {path} is missing; extract it with python -m datasets.prepare, or leave it out "
            "of the annotations"
        ) from None
    except OSError as error:
        raise InputError(
            f"frame {path} cannot be read ({error.strerror}); mend that or extract it again"
        ) from error


@cache
def _torchcodec() -> dict[str, Decoder] | None:
    """Its decoder of each format; None if it is absent, older than 0.16 or does not load."""
    try:
        from torchcodec.decoders import decode_jpeg, decode_png
    except (ImportError, OSError, RuntimeError):
        return None
    return {"png": decode_png, "jpeg": decode_jpeg}


def _by_torchcodec(data: bytes, header: ImageHeader) -> torch.Tensor:
    decoders = _torchcodec()
    if decoders is None:
        return _by_pillow(data)
    # A writable copy: a tensor over bytes would warn.
    data_N = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    try:
        return decoders[header.format](data_N, mode="RGB")
    except RuntimeError:
        return _by_pillow(data)


def _by_pillow(data: bytes) -> torch.Tensor:
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG")) as image:
            ImageOps.exif_transpose(image, in_place=True)
            frame_hwC = np.array(_rgb(image))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DamagedImage(str(error)) from error
    return torch.from_numpy(frame_hwC).permute(2, 0, 1)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow would clip 16-bit grey at 255.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        # The way round keeps Pillow from warning that transparency is lost.
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")
