"""Annotations of an Action Genome root, read and filtered by `datasets.annotations.rules`.

N boxes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bload.errors import InputError
from datasets.annotations.entries import FAULTS, frame_targets
from datasets.annotations.frame_names import frames_by_video, sound_names, video_of
from datasets.annotations.problems import Problems
from datasets.annotations.rules import (
    LONG_ENOUGH,
    MIN_FRAMES,
    FilterCounts,
    Step,
    check_small_boxes,
    frame_rules,
)
from datasets.annotations.targets import FrameTargets
from datasets.annotations.unpickler import read_pickle

SPLITS = ("train", "test")
FRAMES_FOLDER = "frames"
OBJECTS_FILE = "object_bbox_and_relationship.pkl"
SMALL_BOXES_FILE = "object_bbox_and_relationship_filtersmall.pkl"
PERSONS_FILE = "person_bbox.pkl"
MADE_BY = "synthetic.json"  # in a root that the generator made, with the values it was made from


@dataclass(frozen=True, slots=True)
class Video:
    """One video that counts: its name (``001YG.mp4``) and its frames in order of time."""

    name: str
    frames: tuple[FrameTargets, ...]


@dataclass(frozen=True, slots=True)
class Annotations:
    """One split after filtering: videos sorted by name, and the counts on the way."""

    videos: tuple[Video, ...]
    counts: FilterCounts


def read_annotations(root: Path | str, split: str, *, small_boxes: str = "keep") -> Annotations:
    """Read and filter one split of the Action Genome root at `root`.

    `small_boxes` is one of `rules.SMALL_BOXES`. Raises `InputError` naming the path and the remedy
    if files are missing, empty or broken, or name classes, relations or frames they should not: all
    faults are reported at once, with the first few of each kind.
    """
    if split not in SPLITS:
        raise InputError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    objects_path, persons_path = annotation_files(root, small_boxes)
    entries_of, person_of = read_pickles(objects_path, persons_path)
    problems = Problems()
    annotations = filter_annotations(
        entries_of, person_of, split, small_boxes=small_boxes, problems=problems
    )
    problems.refuse(
        f"{objects_path} with {PERSONS_FILE}", "fix the files, or download or make them again"
    )
    if not annotations.videos:
        counts = annotations.counts
        raise InputError(
            f"{objects_path} leaves no video for split {split!r}: of {counts.frames_in_split} "
            f"frames {counts.without_visible_object} show no object, "
            f"{counts.with_small_objects_alone} only small ones, {counts.without_person} have "
            f"no person box in {PERSONS_FILE} and {counts.frames_in_short_videos} are in videos "
            f"of fewer than {MIN_FRAMES}; check that the files belong together"
        )
    return annotations


def annotation_files(root: Path | str, small_boxes: str) -> tuple[Path, Path]:
    """Return the object file and the person file of a root; `InputError` names all missing ones."""
    check_small_boxes(small_boxes)
    root = Path(root)
    folder = root / "annotations"
    if not folder.is_dir():
        raise InputError(
            f"{root} holds no Action Genome (no folder {folder}); put its annotations there, give "
            "the root that has annotations/ and frames/, or choose dataset=synthetic, which needs "
            "no download"
        )
    files = (SMALL_BOXES_FILE if small_boxes == "file" else OBJECTS_FILE, PERSONS_FILE)
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        instead = "choose small_boxes=computed (--small-boxes computed), which needs no such file"
        remedy = instead if missing == [SMALL_BOXES_FILE] else "give the root that has them"
        raise InputError(
            f"{folder} lacks {' and '.join(missing)}; put Action Genome's annotations there, or "
            f"{remedy}"
        )
    return folder / files[0], folder / files[1]


def read_pickles(*paths: Path) -> list[dict]:
    """Return the dictionary (frame name -> annotation) in each file.

    Raises `InputError` naming every file that cannot be read or holds none.
    """
    read, wrong = [], []
    for path in paths:
        try:
            value = read_pickle(path)
            if not isinstance(value, dict) or not value:
                held = "no frames" if isinstance(value, dict) else f"a {type(value).__name__}"
                raise InputError(
                    f"{path} holds {held}, not a dictionary of frames; download or make it again"
                )
            read.append(value)
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError(", and ".join(wrong))
    return read


def filter_annotations(
    entries_of: dict,
    person_of: dict,
    split: str,
    *,
    small_boxes: str = "keep",
    problems: Problems | None = None,
) -> Annotations:
    """Apply the rules to the dictionaries of the two pickles (frame name -> annotation).

    A frame with a fault is left out and added to `problems`; without `problems` all faults are
    raised together as one `InputError`.
    """
    faults = Problems() if problems is None else problems
    left = {name: entries_of[name] for name in sound_names(entries_of, faults)}
    steps = []
    for title, rule in frame_rules(split, small_boxes, person_of):
        left = _apply(rule, left, faults)
        steps.append(_step(title, left))
    targets = _apply(lambda name, e: frame_targets(name, e, person_of[name]), left, faults)
    every = sorted(frames_by_video(targets).items())
    videos = {video: names for video, names in every if len(names) >= MIN_FRAMES}
    left = {name: left[name] for names in videos.values() for name in names}
    steps.append(_step(LONG_ENOUGH, left))
    if problems is None:
        faults.refuse("the annotations have faults", "fix them")
    return Annotations(
        tuple(Video(video, tuple(targets[n] for n in names)) for video, names in videos.items()),
        FilterCounts(tuple(steps), _without_area(targets[name] for name in left)),
    )


def _apply(rule: Any, frames: dict[str, list], problems: Problems) -> dict[str, Any]:
    """Return frame -> what `rule` makes of its name and entries, for frames it leaves anything."""
    left = {}
    for name, entries in frames.items():
        try:
            if kept := rule(name, entries):
                left[name] = kept
        except InputError as fault:
            problems.add(f"frames in which {fault}", name)
        except KeyError as fault:
            problems.add(f"frames that lack {fault}", name)
        except ValueError as fault:
            problems.add("frames not annotated as Action Genome does it", f"{name}: {fault}")
        except FAULTS:  # in Python's own words, which help nobody
            problems.add("frames that are not made of lists and dictionaries as they should", name)
    return left


def _step(rule: str, frames: dict[str, list]) -> Step:
    videos = {video_of(name) for name in frames}
    return Step(rule, len(frames), len(videos), sum(map(len, frames.values())))


def _without_area(frames: Iterable[FrameTargets]) -> int:
    boxes = [box_N4 for t in frames for box_N4 in (t.object_boxes_M4, t.person_box_4[None])]
    x1_N, y1_N, x2_N, y2_N = np.concatenate([np.empty((0, 4), np.float32), *boxes]).T
    return int(np.count_nonzero((x2_N <= x1_N) | (y2_N <= y1_N)))
