"""The rules of scene-graph detection on Action Genome that say which frames count, one by one.

In this order: the first entry of a frame says its split; a frame counts if some object is visible;
under ``computed``, small boxes are dropped, and frames without any other object too; a frame
without a person box is dropped; only visible objects stay. Finally, a video counts if it has
`MIN_FRAMES` frames or more.
"""

from collections.abc import Callable, Iterator
from typing import Any

from datasets.annotations.entries import is_small

SMALL_BOXES = ("keep", "file", "computed")
"""Treatment of objects whose box has a short side of 16 pixels or less.

``keep``: they stay. ``file``: the published `SMALL_BOXES_FILE`, which lacks them, is read in place
of `OBJECTS_FILE`. ``computed``: they are dropped by their box in `OBJECTS_FILE`.
"""
MIN_FRAMES = 3

Entries = list[dict[str, Any]]
Rule = Callable[[str, Entries], Entries]
"""Name and entries of a frame -> the entries that stay; if none does, the frame is dropped."""


def frame_rules(split: str, small_boxes: str, person_of: dict) -> Iterator[tuple[str, Rule]]:
    """Yield the rules for one frame with their titles, in order."""

    def visible(entries: Entries) -> Entries:
        return [entry for entry in entries if entry["visible"]]

    def is_in_split(entries: Entries) -> bool:
        return bool(entries) and entries[0]["metadata"]["set"] == split

    def has_person(name: str) -> bool:
        return name in person_of and len(person_of[name]["bbox"]) > 0

    yield "the first entry is of the split", lambda _, e: e if is_in_split(e) else []
    yield "some object is visible", lambda _, e: e if visible(e) else []
    if small_boxes == "computed":
        yield (
            "some visible object is not small",
            lambda _, e: [entry for entry in visible(e) if not is_small(entry)],
        )
    yield "the person has a box", lambda name, e: e if has_person(name) else []
    yield "visible objects alone", lambda _, e: visible(e)
