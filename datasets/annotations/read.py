"""Annotations of an Action Genome root, read and filtered by `datasets.annotations.rules`.

M objects of a frame, N boxes.
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
    Rule,
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

_MALFORMED = "frames not annotated as Action Genome does it"

Entries = dict[str, list[dict[str, Any]]]
"""Frame name -> its entries, those that the rules so far left over."""


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

    `small_boxes` is one of `rules.SMALL_BOXES`. Raises `InputError` naming the path and
    the remedy when files are missing, empty or broken, or name classes, relations or frames they
    should not: all that is wrong is told at once, with the first few of each kind.
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
        f"{objects_path} with {PERSONS_FILE}", "mend the files, or download or make them again"
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
    """The object file and the person file of a root; `InputError` names all that are missing."""
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


def read_pickles(objects_path: Path, persons_path: Path) -> tuple[dict, dict]:
    """The dictionaries of both files (frame name -> annotation); tells what is wrong with each."""
    read, wrong = [], []
    for path in (objects_path, persons_path):
        try:
            read.append(read_annotation_file(path))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError(", and ".join(wrong))
    return read[0], read[1]


def read_annotation_file(path: Path) -> dict:
    """The dictionary in a pickle; `InputError` if it holds none or nothing."""
    value = read_pickle(path)
    if not isinstance(value, dict) or not value:
        held = "no frames" if isinstance(value, dict) else f"a {type(value).__name__}"
        raise InputError(
            f"{path} holds {held}, not a dictionary of frames; download or make it again"
        )
    return value


def filter_annotations(
    entries_of: dict,
    person_of: dict,
    split: str,
    *,
    small_boxes: str = "keep",
    problems: Problems | None = None,
) -> Annotations:
    """Apply the rules to the two dictionaries of the pickles (frame name -> annotation).

    A frame with a fault is left out and noted in `problems`; without `problems` all faults are
    raised together as one `InputError`.
    """
    faults = Problems() if problems is None else problems
    left = {name: entries_of[name] for name in sound_names(entries_of, faults)}
    steps: dict[str, Step] = {}
    for title, rule in frame_rules(split, small_boxes, person_of):
        left = _apply(rule, left, faults)
        steps[title] = _step(title, left)
    targets = _targets(left, person_of, faults)
    of_video = frames_by_video(targets)
    videos = {video: names for video, names in of_video.items() if len(names) >= MIN_FRAMES}
    left = {name: left[name] for names in videos.values() for name in names}
    steps[LONG_ENOUGH] = _step(LONG_ENOUGH, left)
    if problems is None:
        faults.refuse("the annotations have faults", "mend them")
    return Annotations(
        videos=tuple(
            Video(video, tuple(targets[name] for name in names))
            for video, names in sorted(videos.items())
        ),
        counts=FilterCounts(tuple(steps.values()), _without_area(targets[name] for name in left)),
    )


def _without_area(frames: Iterable[FrameTargets]) -> int:
    boxes = [box_N4 for t in frames for box_N4 in (t.object_boxes_M4, t.person_box_4[None])]
    x1_N, y1_N, x2_N, y2_N = np.concatenate([np.empty((0, 4), np.float32), *boxes]).T
    return int(np.count_nonzero((x2_N <= x1_N) | (y2_N <= y1_N)))


def _apply(rule: Rule, frames: Entries, problems: Problems) -> Entries:
    left = {}
    for name, entries in frames.items():
        try:
            kept = rule(name, entries)
        except FAULTS as fault:
            _note(problems, name, fault)
        else:
            if kept:
                left[name] = kept
    return left


def _targets(frames: Entries, person_of: dict, problems: Problems) -> dict[str, FrameTargets]:
    targets = {}
    for name, entries in frames.items():
        try:
            targets[name] = frame_targets(name, entries, person_of[name])
        except FAULTS as fault:
            _note(problems, name, fault)
    return targets


def _note(problems: Problems, name: str, fault: Exception) -> None:
    """Count frames with the same fault together; of others tell each."""
    if isinstance(fault, InputError):
        problems.add(f"frames in which {fault}", name)
    elif isinstance(fault, KeyError):
        problems.add(f"frames that lack {fault}", name)
    elif isinstance(fault, ValueError):
        problems.add(_MALFORMED, f"{name}: {fault}")
    else:  # Python's own words about what it could not take apart
        problems.add("frames that are not made of lists and dictionaries as they should be", name)


def _step(rule: str, frames: Entries) -> Step:
    videos = {video_of(name) for name in frames}
    return Step(rule, len(frames), len(videos), sum(map(len, frames.values())))
