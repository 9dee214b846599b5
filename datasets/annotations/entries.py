"""The annotations of one frame: their values checked, and the targets made from them.

Nothing in a file from elsewhere is taken for granted: types, numbers and sizes are checked where
they are used. Every function raises one of `FAULTS` for a value that is not as Action Genome writes
it: `InputError` for what many frames may share, like an unknown class; `read` adds the frame.

M visible objects, G ground-truth relations.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bload.errors import InputError
from datasets.annotations.problems import shown
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import GROUPS, object_index, relation_index

FAULTS = (KeyError, TypeError, ValueError, IndexError, OverflowError)  # InputError: a ValueError

SMALL_SIDE = 16.0
"""A box whose short side is this many pixels or less is small: 16 is, 16.5 is not."""

MOST_ENTRIES = 64  # per frame; Action Genome has up to 9 objects
MOST_LABELS = 32  # per group of relations; Action Genome has up to 5
LARGEST_SIDE = 16_384  # pixels of a frame
LARGEST_NUMBER = 1e6  # of a box, in pixels

_NO_BOX = f"a box is not four numbers within {LARGEST_NUMBER:,.0f} pixels"
_NUMBERS = (int, float, np.integer, np.floating)
_LISTS = (list, tuple, np.ndarray)


def split_of(entries: Any) -> str | None:
    """Return the split of a frame: that of its first entry, visible or not; None without one."""
    if not isinstance(entries, list | tuple) or len(entries) > MOST_ENTRIES:
        raise ValueError(f"not a list of up to {MOST_ENTRIES} objects but {shown(entries)}")
    if not entries:
        return None
    split = entries[0]["metadata"]["set"]
    if not isinstance(split, str):
        raise ValueError(f"set is {shown(split)}, not a text")
    return split


def is_visible(entry: dict) -> bool:
    """True if the object can be seen in the frame."""
    visible = entry["visible"]
    if not isinstance(visible, bool | np.bool_ | int):
        raise ValueError(f"visible is {shown(visible)}, not True or False")
    return bool(visible)


def is_small(entry: dict) -> bool:
    """True if the box of a visible object, as annotated, has a short side of 16 pixels or less."""
    _, _, width, height = four_numbers(entry["bbox"])
    return min(width, height) <= SMALL_SIDE


def four_numbers(box: Any) -> tuple[float, float, float, float]:
    """Return a box as floats, from a list, tuple or array of four finite numbers."""
    if not isinstance(box, _LISTS) or len(box) != 4:
        raise InputError(_NO_BOX)
    for number in box:
        if not isinstance(number, _NUMBERS) or not -LARGEST_NUMBER <= number <= LARGEST_NUMBER:
            raise InputError(_NO_BOX)
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def labels(entry: dict, group: str) -> Iterable[str]:
    """Return the relations that an entry names under `group`, a key of `GROUPS`, repeats too."""
    names = entry[group]
    if names is None:
        return ()
    if not isinstance(names, _LISTS) or len(names) > MOST_LABELS:
        raise ValueError(f"{group} is {shown(names)}, not a list of up to {MOST_LABELS} names")
    return names


def image_size(person: dict) -> tuple[int, int]:
    """Return the native height and width of a frame."""
    size = person["bbox_size"]
    if isinstance(size, _LISTS) and len(size) == 2:
        width, height = size
        if all(isinstance(side, _NUMBERS) and 1 <= side <= LARGEST_SIDE for side in size):
            return int(height), int(width)
    raise ValueError(
        f"bbox_size is {shown(size)}, not a width and a height of 1 to {LARGEST_SIDE:,}"
    )


def person_boxes(person: dict) -> list | tuple | np.ndarray:
    """Return the rows of the person boxes, xyxy; there may be none."""
    boxes, mode = person["bbox"], person.get("bbox_mode", "xyxy")
    if not isinstance(boxes, _LISTS) or mode != "xyxy":
        raise ValueError(f"bbox is {shown(boxes)} in mode {shown(mode)}, not rows of xyxy")
    return boxes


def frame_targets(name: str, visible: Sequence[dict], person: dict) -> FrameTargets:
    """Return the scene graph of a frame from the entries of its visible objects and its person."""
    boxes = [four_numbers(entry["bbox"]) for entry in visible]
    corners_M4 = [(x, y, x + width, y + height) for x, y, width, height in boxes]
    relations = [
        (row, relation_index(label, group))
        for row, entry in enumerate(visible)
        for group in GROUPS
        for label in labels(entry, group)
    ]
    return FrameTargets(
        name=str(name),
        size_hw=image_size(person),
        person_box_4=np.array(four_numbers(person_boxes(person)[0]), dtype=np.float32),
        object_boxes_M4=np.array(corners_M4, dtype=np.float32).reshape(-1, 4),
        object_classes_M=np.array([object_index(e["class"]) for e in visible], dtype=np.int64),
        relations_G2=np.array(relations, dtype=np.int64).reshape(-1, 2),
    )
