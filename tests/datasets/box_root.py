"""A root whose frames are black but for one white object: what boxes say can be looked at."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datasets.build import build_source
from datasets.config import DatasetConfig
from datasets.source import VideoSource
from tests.datasets.annotations.making import entry, person, write_root

Box = tuple[int, int, int, int]


def write_box_root(root: Path, videos: dict[str, tuple[tuple[int, int], list[Box]]]) -> Path:
    """Write a training root; `videos`: name -> (width, height), white box xyxy of every frame.

    The person's box is the object's; frames are numbered 1, 4, 7, ...
    """
    entries_of, person_of = {}, {}
    for video, (size_wh, boxes) in videos.items():
        (root / "frames" / video).mkdir(parents=True)
        for position, (x1, y1, x2, y2) in enumerate(boxes):
            name = f"{video}/{1 + 3 * position:06d}.png"
            pixels_HW3 = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
            pixels_HW3[y1:y2, x1:x2] = 255
            Image.fromarray(pixels_HW3).save(root / "frames" / name)
            entries_of[name] = [entry(bbox=(x1, y1, x2 - x1, y2 - y1))]
            box = np.array([[x1, y1, x2, y2]], np.float32)
            person_of[name] = person() | {"bbox": box, "bbox_size": size_wh}
    write_root(root, entries_of, person_of)
    return root


def open_root(root: Path, split: str, size_hw: tuple[int, int], **keys: Any) -> VideoSource:
    """Open a split of any root in Action Genome's files, on a canvas of this size."""
    return build_source(DatasetConfig("action_genome", root, [*size_hw], **keys), split)


def white_box(picture_CHW: np.ndarray) -> list[int]:
    """The bright box of a picture, xyxy."""
    rows, columns = np.nonzero(np.asarray(picture_CHW).mean(0) > 100)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
