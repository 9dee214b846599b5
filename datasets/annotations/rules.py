"""The rules of scene-graph detection on Action Genome that say which frames count, one by one.

In this order: the split of a frame is its first entry's; a frame counts if some object is visible;
small boxes are out, if that is chosen to be computed, and a frame left without an object then does
not count; a frame is dropped if it has no person box; only visible objects stay. Then a video
counts with `MIN_FRAMES` frames or more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bload.errors import InputError
from datasets.annotations.entries import is_small, is_visible, person_boxes, split_of

SMALL_BOXES = ("keep", "file", "computed")
"""What becomes of objects whose box has a short side of 16 pixels or less.

``keep``: they stay. ``file``: they are out as the published `SMALL_BOXES_FILE` has it, which is
read in place of `OBJECTS_FILE`. ``computed``: they are out as `OBJECTS_FILE` gives their boxes.
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
    """The rules of one frame with their titles, in order: entries -> those that stay, if any."""
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
    """Rule 1: a frame is of the split that its first entry says, visible or not."""
    return entries if split_of(entries) == split else []


def with_visible(entries: list[dict]) -> list[dict]:
    """Rule 2: a frame counts if any of its entries is visible."""
    visible = [is_visible(entry) for entry in entries]  # all are looked at, for their faults
    return entries if any(visible) else []


def without_small(entries: list[dict]) -> list[dict]:
    """The choice ``computed``: small boxes are out, and a frame left without an object is."""
    return [entry for entry in entries if is_visible(entry) and not is_small(entry)]


def has_person(name: str, person_of: dict) -> bool:
    """Rule 3: whether the person file has at least one box for a frame."""
    return name in person_of and len(person_boxes(person_of[name])) > 0


def visible_objects(entries: list[dict]) -> list[dict]:
    """Rule 4: the entries that stay."""
    return [entry for entry in entries if is_visible(entry)]


def check_small_boxes(small_boxes: Any) -> None:
    """Refuse a choice that is not one of `SMALL_BOXES`."""
    if small_boxes not in SMALL_BOXES:
        raise InputError(f"small_boxes is {small_boxes!r}; choose {', '.join(SMALL_BOXES)}")


def small_boxes_choice(value: str | bool) -> str:
    """One of `SMALL_BOXES` from a config; in older ones True and False were ``file``, ``keep``."""
    choice = {True: "file", False: "keep"}[value] if isinstance(value, bool) else value
    check_small_boxes(choice)
    return choice


@dataclass(frozen=True, slots=True)
class Step:
    """What is left after a rule: frames, the videos they are of, and entries (objects) in them."""

    rule: str
    frames: int
    videos: int
    objects: int


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """What each rule left over and took away, for one split; `steps` are in order of the rules.

    `boxes_without_area` of the frames that count, of objects and persons, stay, as in the
    field: whoever reads the data should be told how many there are.
    """

    steps: tuple[Step, ...]
    boxes_without_area: int = 0

    def dropped(self, rule: str) -> int:
        """Frames that the rule of this title took away; 0 if it was not applied."""
        titles = [step.rule for step in self.steps]
        if rule not in titles:
            return 0
        at = titles.index(rule)
        return self.steps[at - 1].frames - self.steps[at].frames

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
    def short_videos(self) -> int:
        return self.steps[-2].videos - self.steps[-1].videos

    @property
    def frames(self) -> int:
        return self.steps[-1].frames

    @property
    def videos(self) -> int:
        return self.steps[-1].videos
