"""The rules of scene-graph detection on Action Genome that say which frames count, one by one.

In this order: the first entry of a frame says its split; a frame counts if some object is visible;
small boxes are left out, if that is chosen to be computed, and so is a frame without any other
object; a frame without a person box is dropped; only visible objects stay. Then a video counts with
`MIN_FRAMES` frames or more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bload.errors import InputError
from datasets.annotations.entries import is_small, is_visible, person_boxes, split_of

SMALL_BOXES = ("keep", "file", "computed")
"""Treatment of objects whose box has a short side of 16 pixels or less.

``keep``: they stay. ``file``: the published `SMALL_BOXES_FILE`, which lacks them, is read in place
of `OBJECTS_FILE`, as it is. ``computed``: those that `OBJECTS_FILE` gives such a box are left out.
"""
MIN_FRAMES = 3

IN_SPLIT = "the first entry is of the split"
SEEN = "some object is visible"
LARGE = "some visible object is not small"
WITH_PERSON = "the person has a box"
SEEN_ALONE = "visible objects alone"
LONG_ENOUGH = f"videos of {MIN_FRAMES} frames or more"

Rule = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]
"""Name and entries of a frame -> the entries that stay; none: the frame does not count."""


def frame_rules(split: str, small_boxes: str, person_of: dict) -> list[tuple[str, Rule]]:
    """Return the rules for one frame with their titles, in order."""
    check_small_boxes(small_boxes)
    rules: list[tuple[str, Rule]] = [
        (IN_SPLIT, lambda name, entries: in_split(entries, split)),
        (SEEN, lambda name, entries: with_visible(entries)),
        (LARGE, lambda name, entries: without_small(entries)),
        (WITH_PERSON, lambda name, entries: entries if has_person(name, person_of) else []),
        (SEEN_ALONE, lambda name, entries: visible_objects(entries)),
    ]
    return [rule for rule in rules if rule[0] != LARGE or small_boxes == "computed"]


def in_split(entries: list[dict], split: str) -> list[dict]:
    """Rule 1: a frame is in the split that its first entry says, visible or not."""
    return entries if split_of(entries) == split else []


def with_visible(entries: list[dict]) -> list[dict]:
    """Rule 2: a frame counts if any of its entries is visible."""
    visible = [is_visible(entry) for entry in entries]  # all are looked at, for their faults
    return entries if any(visible) else []


def without_small(entries: list[dict]) -> list[dict]:
    """The choice ``computed``: keep visible objects whose box is not small."""
    return [entry for entry in entries if is_visible(entry) and not is_small(entry)]


def has_person(name: str, person_of: dict) -> bool:
    """Rule 3: the person file has at least one box for the frame."""
    return name in person_of and len(person_boxes(person_of[name])) > 0


def visible_objects(entries: list[dict]) -> list[dict]:
    """Rule 4: the entries that stay."""
    return [entry for entry in entries if is_visible(entry)]


def check_small_boxes(small_boxes: Any) -> None:
    """Raise `InputError` for a choice that is not one of `SMALL_BOXES`."""
    if small_boxes not in SMALL_BOXES:
        raise InputError(f"small_boxes is {small_boxes!r}; choose {', '.join(SMALL_BOXES)}")


@dataclass(frozen=True, slots=True)
class Step:
    """What is left after a rule: frames, their videos, and the entries (objects) in them."""

    rule: str
    frames: int
    videos: int
    objects: int


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """What each rule left of one split, in the order of the rules.

    `boxes_without_area` are those of objects and persons in the frames that count, where they stay.
    """

    steps: tuple[Step, ...]
    boxes_without_area: int = 0

    def dropped(self, rule: str) -> int:
        """Count the frames that the rule of this title took away; 0 if it was not applied."""
        steps = zip(self.steps, self.steps[1:], strict=False)
        return sum(before.frames - after.frames for before, after in steps if after.rule == rule)

    @property
    def frames_in_split(self) -> int:
        return self.steps[0].frames

    @property
    def without_visible_object(self) -> int:
        return self.dropped(SEEN)

    @property
    def with_small_objects_alone(self) -> int:
        return self.dropped(LARGE)

    @property
    def without_person(self) -> int:
        return self.dropped(WITH_PERSON)

    @property
    def frames_in_short_videos(self) -> int:
        return self.dropped(LONG_ENOUGH)

    @property
    def frames(self) -> int:
        return self.steps[-1].frames
