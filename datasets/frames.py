"""Reading images: the only place that does.

C channels, H x W pixels, T frames.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations import check_frame_name

FRAMES_FOLDER = "frames"


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
        frame_CHW = decode_image(str(path), mode=ImageReadMode.RGB)
    except RuntimeError as error:
        if not path.exists():
            raise InputError(
                f"frame {path} is missing; extract it with ffmpeg -i VIDEO %06d.png, or leave the "
                "frame out of the annotations"
            ) from None
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"frame {path} ({path.stat().st_size} bytes) does not decode ({reason}); "
            "extract or copy it again"
        ) from error
    if frame_CHW.shape[1:] != size_hw:
        frame_CHW = transforms.resize(frame_CHW, list(size_hw), antialias=True)
    return frame_CHW
