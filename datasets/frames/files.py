"""The frames of a root as image files, decoded whenever they are read.

C channels, h x w pixels as stored, T frames.
"""

import os
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bload import InputError
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER
from datasets.annotations.targets import FrameTargets
from datasets.files import reading

KINDS = ("PNG", "JPEG")


def fit(size_hw: tuple[int, int], into_hw: tuple[int, int]) -> tuple[int, int]:
    """Return the size (h, w) of the largest image of the shape of `size_hw` inside `into_hw`.

    Each side is at least 1 and at most that of `into_hw`; a small image grows. Sides are rounded in
    exact integer arithmetic to the nearest pixel, a half up. All sizes are positive.
    """
    (height, width), (most_h, most_w) = size_hw, into_hw
    if most_h * width <= most_w * height:
        return most_h, min(most_w, max(1, _scaled(width, most_h, height)))
    return min(most_h, max(1, _scaled(height, most_w, width))), most_w


def _scaled(side: int, numerator: int, denominator: int) -> int:
    return (2 * side * numerator + denominator) // (2 * denominator)


class FrameFiles:
    """The frames of the root at `root`, for data loaders; cheap to pickle, as `FrameCache` is."""

    def __init__(self, root: Path | str) -> None:
        self.folder = Path(root) / FRAMES_FOLDER

    def check_all_exist(self, names: Iterable[str]) -> None:
        """Raise `InputError` with the number of missing frames among `names`; read none."""
        existing = {path.name: set(os.listdir(path)) for path in self.folder.glob("*/")}
        problems = Problems()
        for name in names:
            video, _, file = name.partition("/")
            if file not in existing.get(video, ()):
                problems.add("missing frames", name)
        for video, files in existing.items():
            if "000000.png" in files:
                problems.add("videos whose frames are numbered from 0, not from 1", video)
        problems.raise_if_any(
            self.folder,
            "python -m datasets.prepare makes them from the videos, with --check it reports every "
            "frame; a synthetic root is made again under another dataset.root",
        )

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) of the file of a frame annotated as `size_hw`: the same."""
        return size_hw

    def read(self, video: int, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one video, all of one size, as uint8 RGB ``(T, 3, h, w)``.

        `video` is the number of the video in its split, and `first` the number of the first frame
        in it. Raises `InputError` naming the path for a frame that is missing, does not decode or
        has another size than annotated: a frame is never replaced by another.
        """
        return torch.stack([self.frame(target) for target in targets])

    def frame(self, target: FrameTargets) -> torch.Tensor:
        """Read one frame as uint8 RGB ``(3, h, w)``."""
        path = self.folder / target.name
        frame_Chw = torch.from_numpy(decode(path)).permute(2, 0, 1).contiguous()
        if frame_Chw.shape[1:] != target.size_hw:
            (_, height, width), (h, w) = frame_Chw.shape, target.size_hw
            raise InputError(
                f"frame {path} is {width} x {height} pixels but its annotation asks for {w} x {h}; "
                "python -m datasets.prepare --check lists all such frames, and without --check it "
                "writes the videos anew whose folders you have removed"
            )
        return frame_Chw


def decode(path: Path) -> np.ndarray:
    """Return the pixels of a PNG or JPEG, known by its content, as RGB uint8 ``(h, w, 3)``.

    Transparency is dropped. A PNG has a checksum for every chunk, which Pillow's `verify` checks. A
    JPEG has none: truncation is noticed, but a flipped bit in its data gives wrong pixels.

    Raises:
        InputError: it is missing or damaged, with its path.
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
