"""Annotations of an Action Genome root, read and filtered by `datasets.annotations.rules`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bload import InputError
from bload.errors import check_choice
from datasets.annotations.entries import FAULTS, frame_targets
from datasets.annotations.frame_names import frame_number, frames_by_video, valid_names, video_of
from datasets.annotations.problems import Problems
from datasets.annotations.rules import MIN_FRAMES, SMALL_BOXES, frame_rules
from datasets.annotations.targets import FrameTargets, Video
from datasets.annotations.unpickler import read_pickle
from datasets.annotations.vocabulary import OBJECTS, RELATIONS

PUBLISHED_SPLITS = ("train", "test")
FRAMES_FOLDER = "frames"
OBJECTS_FILE = "object_bbox_and_relationship.pkl"
SMALL_BOXES_FILE = "object_bbox_and_relationship_filtersmall.pkl"
PERSONS_FILE = "person_bbox.pkl"
KNOBS_FILE = "synthetic.json"  # in a synthetic root: the knobs it was made with


class Remaining(NamedTuple):
    """The data left after a rule: frames, their videos, and the entries (objects) in them."""

    rule: str
    frames: int
    videos: int
    objects: int


@dataclass(frozen=True, slots=True)
class Annotations:
    """One split after filtering: videos sorted by name, what each rule left, and all faults."""

    videos: tuple[Video, ...]
    remaining: tuple[Remaining, ...]
    problems: Problems


def read_annotations(
    root: Path | str, split: str, *, small_boxes: str = "keep", validation: float = 0.0
) -> Annotations:
    """Read and filter one split of the Action Genome root at `root`.

    `small_boxes` is one of `rules.SMALL_BOXES`. In real data a share `validation` of the training
    videos, always the same ones, is split ``validation`` instead. Raises `InputError`, naming the
    path and the remedy, if files are missing, empty or broken, or name wrong classes, relations or
    frames. It reports all faults at once, with the first few of each kind.
    """
    is_synthetic = (Path(root) / KNOBS_FILE).exists()
    divided = validation > 0 and split in ("train", "validation") and not is_synthetic
    files, of_file = read_files(root, small_boxes), "train" if divided else split
    annotations = filter_annotations(*files, of_file, small_boxes)
    folder = Path(root) / "annotations"
    annotations.problems.raise_if_any(folder, "fix the files, or download or make them again")
    if not annotations.videos and split not in PUBLISHED_SPLITS and not is_synthetic:
        raise InputError(
            f"{root} has the splits train and test alone, and {split!r} is neither; dataset."
            "validation=0.1 makes a tenth of train the split validation"
        )
    if not annotations.videos:
        counts = ", ".join(f"{step.frames:,} ({step.rule})" for step in annotations.remaining)
        raise InputError(
            f"{folder} leaves no video for split {split!r}: frames after each rule are {counts}; "
            f"check that {PERSONS_FILE} belongs to the object file"
        )
    return replace(annotations, videos=divide(annotations.videos, split, validation * divided))


def divide(videos: tuple[Video, ...], split: str, validation: float) -> tuple[Video, ...]:
    """Return a split of training videos, of which a share is to validate on."""
    if not validation:
        return videos
    drawn = np.random.default_rng(0).permutation(len(videos))
    count = max(1, round(validation * len(videos)))
    if count == len(videos):
        raise InputError(f"dataset.validation={validation} takes all {count} videos; lower it")
    members = drawn[:count] if split == "validation" else drawn[count:]
    return tuple(videos[index] for index in sorted(members))


@cache
def trained_pairs(root: Path, small_boxes: str, validation: float = 0.0) -> np.ndarray | None:
    """Return which relations each object class has in the videos to train on, bool ``(37, 26)``.

    None for a root without training videos, or without Action Genome's files; the arguments are
    those of `read_annotations`.
    """
    if not (root / "annotations" / object_file(small_boxes)).exists():
        return None
    files, share = read_files(root, small_boxes), validation * (not (root / KNOBS_FILE).exists())
    videos = filter_annotations(*files, "train", small_boxes).videos
    videos = divide(videos, "train", share)
    pairs_KR = np.zeros((len(OBJECTS), len(RELATIONS)), bool)
    for frame in (frame for video in videos for frame in video.frames):
        row_G, relation_G = frame.relations_G2.T
        pairs_KR[frame.object_classes_M[row_G], relation_G] = True
    return pairs_KR if videos else None


def object_file(small_boxes: str) -> str:
    """Return the name of the file that one of `rules.SMALL_BOXES` reads."""
    return SMALL_BOXES_FILE if small_boxes == "file" else OBJECTS_FILE


def read_files(root: Path | str, small_boxes: str) -> tuple[dict, dict]:
    """Return the object file and the person file of a root, each frame name -> annotation.

    Raises `InputError` naming what is missing or broken.
    """
    check_choice("small_boxes", small_boxes, SMALL_BOXES)
    folder = Path(root) / "annotations"
    if not folder.is_dir():
        raise InputError(
            f"{root} holds no Action Genome (no folder {folder}); put its annotations there, or "
            "give the root that has annotations/ and frames/"
        )
    files = read_pickle(folder / object_file(small_boxes)), read_pickle(folder / PERSONS_FILE)
    if not all(isinstance(file, dict) and file for file in files):
        raise InputError(f"a pickle in {folder} has no frames; download or make it again")
    return files


def filter_annotations(
    entries_of: dict, person_of: dict, split: str, small_boxes: str
) -> Annotations:
    """Apply the rules to the dictionaries of the two pickles (frame name -> annotation).

    A frame with a fault is left out and added to `problems`.
    """
    problems, remaining = Problems(), []
    frames = {name: entries_of[name] for name in valid_names(entries_of, problems)}
    for title, rule in frame_rules(split, small_boxes, person_of):
        frames = _apply(rule, frames, problems)
        remaining.append(_count(title, frames))
    targets = _apply(lambda name, e: frame_targets(name, e, person_of[name]), frames, problems)
    videos = tuple(
        Video(video, with_gaps([targets[name] for name in names]))
        for video, names in frames_by_video(targets).items()
        if len(names) >= MIN_FRAMES
    )
    frames = {target.name: frames[target.name] for video in videos for target in video.frames}
    remaining.append(_count(f"videos of {MIN_FRAMES} frames or more", frames))
    return Annotations(videos, tuple(remaining), problems)


def _apply(
    rule: Callable[[str, list], Any], frames: dict[str, list], problems: Problems
) -> dict[str, Any]:
    """Return frame -> result of `rule` for its name and entries, where that is not empty."""
    results = {}
    for name, entries in frames.items():
        try:
            if result := rule(name, entries):
                results[name] = result
        except InputError as fault:
            problems.add(f"frames in which {fault}", name)
        except FAULTS as fault:
            example = f"{name}: {type(fault).__name__} {fault}"
            problems.add("frames not annotated as Action Genome does it", example)
    return results


def with_gaps(frames: Sequence[FrameTargets]) -> tuple[FrameTargets, ...]:
    """Set the gaps between the frames of a video, by their numbers."""
    numbers = [float(frame_number(frame.name)) for frame in frames]
    gaps = np.diff(numbers, prepend=numbers[0]).tolist()
    return tuple(replace(frame, gap=gap) for frame, gap in zip(frames, gaps, strict=True))


def _count(rule: str, frames: dict[str, list]) -> Remaining:
    videos = {video_of(name) for name in frames}
    return Remaining(rule, len(frames), len(videos), sum(map(len, frames.values())))
