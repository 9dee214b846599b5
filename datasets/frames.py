"""Reading images: the only place that does.

Pillow decodes: on a 64-pixel PNG it is slower than torchvision's decoder (72 against 44
microseconds), but a flipped bit in a PNG ends torchvision's in a segmentation fault, which kills
the worker of a data loader without naming the frame.

C channels, H x W pixels, T frames.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations import FRAMES_FOLDER, check_frame_name


def read_frames(root: Path | str, names: Sequence[str], size_hw: tuple[int, int]) -> torch.Tensor:
    """Decode the frames `names` of the root at `root` to uint8 RGB ``(T, 3, H, W)``.

    An image of another size is resized (bilinear, antialiased). Raises `InputError` naming the
    path for a frame that is missing or does not decode: a frame is never replaced by another.
    """
    frames_TCHW = torch.empty((len(names), 3, *size_hw), dtype=torch.uint8)
    for index, name in enumerate(names):
        frames_TCHW[index] = _read_frame(Path(root), name, size_hw)
    return frames_TCHW


def _read_frame(root: Path, name: str, size_hw: tuple[int, int]) -> torch.Tensor:
    check_frame_name(name)
    path = root / FRAMES_FOLDER / name
    try:
        with Image.open(path) as image:
            frame_HWC = np.array(image.convert("RGB"))
    except FileNotFoundError:
        raise InputError(
            f"frame {path} is missing; extract it with ffmpeg -i VIDEO %06d.png, leave it out of "
            "the annotations, or remove a synthetic root so that it is drawn again"
        ) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        unknown = isinstance(error, UnidentifiedImageError)
        raise InputError(
            f"frame {path} ({path.stat().st_size} bytes) does not decode "
            f"({'not an image' if unknown else error}); extract or copy it again"
        ) from error
    frame_CHW = torch.from_numpy(frame_HWC).permute(2, 0, 1)
    if frame_CHW.shape[1:] != size_hw:
        frame_CHW = transforms.resize(frame_CHW, list(size_hw), antialias=True)
    return frame_CHW
