"""The annotations of one frame: their values checked, and the targets made from them.

A value that is not as Action Genome writes it raises one of `FAULTS`, or `InputError` for faults
that many frames may share, like an unknown class; `read` adds the frame.

M visible objects, G ground-truth relations.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bload import InputError
from datasets.annotations.problems import short_repr
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import GROUPS, object_index, relation_index

FAULTS = (LookupError, TypeError, ValueError, OverflowError, AttributeError)

SMALL_SIDE = 16.0
"""A box whose short side is this many pixels or less is small: 16 is, 16.5 is not."""

LARGEST_NUMBER = 1e6  # of a box, in pixels


def is_small(entry: dict) -> bool:
    """Return True if a visible object's annotated box has a short side of 16 pixels or less."""
    _, _, width, height = four_numbers(entry["bbox"])
    return min(width, height) <= SMALL_SIDE


def four_numbers(box: Any) -> list[float]:
    """Return a box as floats, from a list, tuple or array of four finite numbers."""
    numbers = [] if box is None else [float(number) for number in box]
    if len(numbers) != 4 or not all(abs(number) <= LARGEST_NUMBER for number in numbers):
        raise InputError(f"a box is not four numbers within {LARGEST_NUMBER:,.0f} pixels")
    return numbers


def image_size(person: dict) -> tuple[int, int]:
    """Return the native height and width of a frame."""
    width, height = person["bbox_size"]
    if min(width, height) < 1:
        raise ValueError(f"bbox_size is {short_repr(person['bbox_size'])}, not a width and height")
    return int(height), int(width)


def frame_targets(name: str, visible: Sequence[dict], person: dict) -> FrameTargets:
    """Return the scene graph of a frame from the entries of its visible objects and its person."""
    boxes = [four_numbers(entry["bbox"]) for entry in visible]
    corners_M4 = [(x, y, x + width, y + height) for x, y, width, height in boxes]
    classes = [object_index(entry["class"]) for entry in visible]
    relations = [
        (row, relation_index(label, group))
        for row, entry in enumerate(visible)
        for group in GROUPS
        for label in entry[group] or ()
    ]
    return FrameTargets(
        name=str(name),
        size_hw=image_size(person),
        person_box_4=np.array(four_numbers(person["bbox"][0]), dtype=np.float32),
        object_boxes_M4=np.array(corners_M4, dtype=np.float32).reshape(-1, 4),
        object_classes_M=np.array(classes, dtype=np.int64),
        relations_G2=np.array(relations, dtype=np.int64).reshape(-1, 2),
    )
