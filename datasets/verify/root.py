"""Verifying a root: annotations, class lists, boxes and frame files, one after another."""

from collections import Counter
from pathlib import Path

import numpy as np

from bload.errors import InputError
from datasets.annotations.entries import FAULTS, split_of
from datasets.annotations.frame_names import check_frame_name
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import (
    FRAMES_FOLDER,
    MADE_BY,
    OBJECTS_FILE,
    SPLITS,
    annotation_files,
    filter_annotations,
    read_annotation_file,
    read_pickles,
)
from datasets.annotations.rules import visible_objects, without_small
from datasets.frames.manifest import MANIFEST
from datasets.prepare.downloads import VIDEOS_FOLDER
from datasets.verify.boxes import check_boxes
from datasets.verify.class_lists import check_class_lists
from datasets.verify.frame_files import check_frames, describe
from datasets.verify.published import compare_lengths
from datasets.verify.report import MadeBy, Report


def verify(
    root: Path | str,
    *,
    small_boxes: str = "file",
    decode: bool = False,
    workers: int = 1,
    published: bool = False,
    progress: bool = True,
) -> Report:
    """Hold all that is at `root` against what its annotations ask for, in both splits.

    Args:
        small_boxes: one of `datasets.annotations.rules.SMALL_BOXES`.
        decode: make pixels of every frame, too.
        workers: files read at a time.
        published: a split that is not as published is a problem, not a remark.

    Raises:
        InputError: annotation files that are missing or cannot be read.
    """
    objects_path, persons_path = annotation_files(root, small_boxes)
    entries_of, person_of = read_pickles(objects_path, persons_path)
    report = Report(str(root), small_boxes)
    check_class_lists(objects_path.parent, report.problems, report.remarks)
    _check_splits(entries_of, report)
    annotated = set(filter(_is_frame_name, entries_of))
    whole_path = objects_path.with_name(OBJECTS_FILE)
    if whole_path != objects_path and whole_path.exists():
        whole = read_annotation_file(whole_path)
        annotated |= set(filter(_is_frame_name, whole))
        _compare_small_boxes(entries_of, whole, report)
    size_of: dict[str, tuple[int, int]] = {}
    for split in SPLITS:
        annotations = filter_annotations(
            entries_of, person_of, split, small_boxes=small_boxes, problems=report.problems
        )
        report.counts[split] = annotations.counts
        lengths = np.array([len(video.frames) for video in annotations.videos], dtype=np.int64)
        report.published[split] = compare_lengths(lengths, split)
        if published and not report.published[split].same:
            report.problems.add("splits that are not as published", split)
        if annotations.videos:
            table = FrameTable.of(annotations.videos)
            check_boxes(table, report.problems, report.remarks)
            try:
                table.sizes()
            except InputError as error:
                report.problems.add("frames annotated in another size than their video", str(error))
        else:
            report.problems.add("splits without a video that counts", split)
        size_of |= {
            frame.name: frame.size_hw for video in annotations.videos for frame in video.frames
        }
    folder = Path(root) / FRAMES_FOLDER
    report.made_by = _made_by(Path(root))
    report.frame_format = describe(folder)
    report.frames = check_frames(
        folder,
        size_of,
        annotated,
        report.problems,
        report.remarks,
        decode=decode,
        workers=workers,
        progress=progress,
    )
    return report


def _made_by(root: Path) -> MadeBy | None:
    """What can make the frames of a root again."""
    frames = root / FRAMES_FOLDER
    if (frames / MANIFEST).exists():
        return "prepare"
    if (root / MADE_BY).exists() and not (root / VIDEOS_FOLDER).exists():
        return "synthetic"
    return None if frames.is_dir() and any(frames.iterdir()) else "prepare"


def _check_splits(entries_of: dict, report: Report) -> None:
    """Note frames of splits that nothing reads, and frames without an entry."""
    splits: Counter[str | None] = Counter()
    for entries in entries_of.values():
        try:
            splits[split_of(entries)] += 1
        except FAULTS:
            continue  # the rules name it
    for split, frames in splits.items():
        if split not in SPLITS:
            kind = "frames without an entry, in no split" if split is None else "other splits"
            report.remarks.add(
                kind, f"{frames:,} frames" + ("" if split is None else f" {split!r}")
            )


def _compare_small_boxes(published: dict, whole: dict, report: Report) -> None:
    """Note frames where the published file leaves other objects than the computed rule."""
    for name, entries in whole.items():
        try:
            computed = [entry["class"] for entry in without_small(entries)]
            kept = [entry["class"] for entry in visible_objects(published.get(name, []))]
        except FAULTS:
            continue
        if computed != kept:
            kind = "frames where --small-boxes computed leaves other objects than the file does"
            report.remarks.add(kind, f"{name} ({len(computed)} for {len(kept)})")


def _is_frame_name(name: object) -> bool:
    try:
        check_frame_name(name)
    except InputError:
        return False
    return True
