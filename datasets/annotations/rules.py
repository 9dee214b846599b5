"""The rules of scene-graph detection on Action Genome that say which frames count, one by one.

In this order: the first entry of a frame says its split; a frame counts if some object is visible;
under ``computed``, small boxes are dropped, and frames without any other object too; a frame
without a person box is dropped; only visible objects stay. Finally, a video counts if it has
`MIN_FRAMES` frames or more.
"""

from collections.abc import Callable
from typing import Any

from datasets.annotations.entries import is_small

SMALL_BOXES = ("keep", "file", "computed")
"""Treatment of objects whose box has a short side of 16 pixels or less.

``keep``: they stay. ``file``: the published `SMALL_BOXES_FILE`, which lacks them, is read in place
of `OBJECTS_FILE`. ``computed``: they are dropped by their box in `OBJECTS_FILE`.
"""
MIN_FRAMES = 3
LARGE = "some visible object is not small"

Rule = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]
"""Name and entries of a frame -> the entries that stay; if none does, the frame is dropped."""


def frame_rules(split: str, small_boxes: str, person_of: dict) -> list[tuple[str, Rule]]:
    """Return the rules for one frame with their titles, in order."""
    rules: list[tuple[str, Rule]] = [
        ("the first entry is of the split", lambda name, entries: in_split(entries, split)),
        ("some object is visible", lambda name, entries: with_visible(entries)),
        (LARGE, lambda name, entries: without_small(entries)),
        ("the person has a box", lambda n, entries: entries if has_person(n, person_of) else []),
        ("visible objects alone", lambda name, entries: visible_objects(entries)),
    ]
    return [rule for rule in rules if rule[0] != LARGE or small_boxes == "computed"]


def in_split(entries: list[dict], split: str) -> list[dict]:
    """Rule 1: a frame is in the split of its first entry, visible or not."""
    return entries if entries and entries[0]["metadata"]["set"] == split else []


def with_visible(entries: list[dict]) -> list[dict]:
    """Rule 2: a frame counts if any of its entries is visible."""
    return entries if any(entry["visible"] for entry in entries) else []


def without_small(entries: list[dict]) -> list[dict]:
    """Apply the choice ``computed``: keep visible objects whose box is not small."""
    return [entry for entry in entries if entry["visible"] and not is_small(entry)]


def has_person(name: str, person_of: dict) -> bool:
    """Rule 3: the person file has at least one box for the frame."""
    return name in person_of and len(person_of[name]["bbox"]) > 0


def visible_objects(entries: list[dict]) -> list[dict]:
    """Rule 4: the entries that stay."""
    return [entry for entry in entries if entry["visible"]]
