"""Annotations of a few frames in Action Genome's formats, for tests."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE


def entry(visible: bool = True, split: str = "train", **changes: Any) -> dict[str, Any]:
    shown = {
        "bbox": (10.0, 20.0, 30.0, 25.0),
        "attention_relationship": ["looking_at"],
        "spatial_relationship": ["behind", "beneath"],
        "contacting_relationship": ["sitting_on"],
    }
    known = {"class": "sofa/couch", "metadata": {"tag": "x", "set": split}, "visible": visible}
    return known | (shown if visible else dict.fromkeys(shown)) | changes


def person(rows: int = 1) -> dict[str, Any]:
    boxes = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return {"bbox": boxes, "bbox_size": (480, 270), "bbox_mode": "xyxy", "bbox_score": boxes[:, 0]}


def frames(video: str, numbers: Any, **changes: Any) -> dict[str, list[dict]]:
    return {f"{video}.mp4/{number:06d}.png": [entry(**changes)] for number in numbers}


def persons(entries_of: dict) -> dict[str, dict]:
    return {name: person() for name in entries_of}


def edit(root: Path, change: Callable[[dict], Any], file: str = OBJECTS_FILE) -> None:
    """Change in place what a file of annotations holds."""
    path = root / "annotations" / file
    value = pickle.loads(path.read_bytes())
    change(value)
    path.write_bytes(pickle.dumps(value))


def write_root(root: Path, entries_of: dict, person_of: dict, file: str = OBJECTS_FILE) -> None:
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / file).write_bytes(pickle.dumps(entries_of))
    (root / "annotations" / PERSONS_FILE).write_bytes(pickle.dumps(person_of))
