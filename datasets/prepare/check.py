"""Check of an Action Genome root: what is there, what is missing, and what to type next.

Nothing is written.

F frames, M objects of all frames one after another, N boxes.
"""

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from datasets.annotations import read
from datasets.annotations.frame_names import video_of
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.frames.decode import check_image, read_file
from datasets.frames.manifest import Manifest, file_of, read_manifest
from datasets.frames.sizes import gib, stored_size
from datasets.prepare.folder import VIDEOS_FOLDER
from datasets.synthetic.world import SPLITS

SLACK = 1.0  # pixels by which a box may leave the image without a remark
ODD_BOXES = ("without an area", "outside the image", "partly outside the image")
OTHER_SIZE = "frames of another size than annotated"


class Findings:
    """Findings about a root: `problems` are what is missing or wrong, `remarks` the rest."""

    def __init__(self, title: str) -> None:
        self.lines, self.problems, self.remarks = [title], Problems(), Problems()

    def __str__(self) -> str:
        lines = [*self.lines]
        for title, notes in (("remarks", self.remarks), ("problems", self.problems)):
            lines += [f"\n{title}:", *(f"  {line}" for line in notes.sentences())] if notes else []
        return "\n".join([*lines, f"\nproblems in all: {len(self.problems):,}"])


def check(root: Path, workers: int = 1) -> tuple[Findings, str]:
    """Compare all files at `root` with its annotations, in both splits.

    Args:
        workers: files read at a time.

    Returns:
        The findings, and the command to type next; empty if something has to be done first.

    Raises:
        InputError: annotation files are missing or cannot be read.
    """
    made = (root / read.MADE_BY).exists()
    small_boxes = "keep" if made else "computed"
    entries_of, person_of = read.read_files(root, small_boxes)
    report = Findings(f"{root}: small boxes {small_boxes}, {len(entries_of):,} annotated frames")
    size_of: dict[str, tuple[int, int]] = {}
    for split in SPLITS if made else read.SPLITS:
        found = read.filter_annotations(entries_of, person_of, split, small_boxes=small_boxes)
        report.problems.merge(found.problems)
        _report_counts(found, split, report, compared=not made)
        if found.videos:
            _check_boxes(FrameTable.of(found.videos), report)
        else:
            report.problems.add("splits without a video that counts", split)
        size_of |= {f.name: f.size_hw for video in found.videos for f in video.frames}
    annotations_sound = not report.problems
    frames_sound = _check_frames(root, size_of, report, workers)
    if not made:
        _report_videos(root, {video_of(name) for name in entries_of}, report)
    if not annotations_sound:
        return report, ""
    if frames_sound:
        data = "dataset=synthetic" if made else "experiment=action_genome"
        return report, f"torchrun --shutdown-timeout 120 train.py {data} dataset.root={root}"
    return report, "" if made else f"python -m datasets.prepare --root {root}"


def _report_counts(
    found: read.Annotations, split: str, report: Findings, *, compared: bool
) -> None:
    """Report what each rule left, `compared` with the lengths embedded in `bload`."""
    headers = (split, "frames", "videos", "objects")
    rows = [(step.rule, step.frames, step.videos, step.objects) for step in found.steps]
    report.lines += ["", tabulate(rows, headers, intfmt=",")]
    if not compared:
        return
    lengths = action_genome_lengths(split)
    report.lines += [f"published are {len(lengths):,} videos, {lengths.sum():,} frames"]
    here, there = Counter(len(video.frames) for video in found.videos), Counter(lengths.tolist())
    for n in sorted(here | there):
        if here[n] != there[n]:
            counts = f"{n} frames: {here[n]:,} here, {there[n]:,} published"
            report.remarks.add(f"{split} videos of a length that is not as published", counts)


def _check_boxes(table: FrameTable, report: Findings) -> None:
    """Note boxes without an area or wholly outside as problems, partly outside ones as remarks."""
    try:
        table.sizes()
    except InputError as error:
        report.problems.add("frames annotated in another size than their video", str(error))
    every_F = np.arange(len(table.names_F))
    for what, boxes_N4, frame_of_N in (
        ("object", table.object_boxes_M4, np.repeat(every_F, np.diff(table.object_offsets))),
        ("person", table.person_boxes_F4, every_F),
    ):
        high_N, wide_N = table.sizes_F2[frame_of_N].T
        x1_N, y1_N, x2_N, y2_N = boxes_N4.T
        flat_N = (x2_N <= x1_N) | (y2_N <= y1_N)
        away_N = (x1_N >= wide_N) | (y1_N >= high_N) | (x2_N <= 0) | (y2_N <= 0)
        out_N = (x2_N > wide_N + SLACK) | (y2_N > high_N + SLACK)
        out_N |= np.minimum(x1_N, y1_N) < -SLACK
        odd_N = np.select([flat_N, away_N, out_N], [0, 1, 2], 3)
        for row in np.flatnonzero(odd_N < 3):
            corners = ", ".join(f"{number:g}" for number in boxes_N4[row])
            frame, size = table.names_F[frame_of_N[row]], f"{wide_N[row]} x {high_N[row]}"
            notes = report.remarks if odd_N[row] == 2 else report.problems
            notes.add(f"{what} boxes {ODD_BOXES[odd_N[row]]}", f"{frame} ({corners} in {size})")


def _report_videos(root: Path, wanted: set[str], report: Findings) -> None:
    """Report how many videos are there to extract, and the free space of the disk."""
    there = sum((root / VIDEOS_FOLDER / video).is_file() for video in wanted)
    free = shutil.disk_usage(root).free
    report.lines.append(f"of {len(wanted):,} annotated videos {there:,} are in {VIDEOS_FOLDER}/")
    report.lines.append(f"{gib(free)} of the disk are free")


def _check_frames(
    root: Path, size_of: dict[str, tuple[int, int]], report: Findings, workers: int
) -> bool:
    """Read every frame that counts; return True if all are as they should be."""
    folder, problems, manifest = root / read.FRAMES_FOLDER, report.problems, None
    try:
        manifest = read_manifest(folder)
    except InputError as error:
        problems.add("manifests that cannot be read", str(error))
    stored_as = manifest or Manifest()

    def wrong(name: str) -> tuple[str, str] | None:
        """Return the kind of problem that a frame has, if any, and where."""
        file = file_of(name, stored_as.format) if manifest else name
        path, (height, width) = folder / file, stored_size(size_of[name], stored_as.short_side)
        if not path.exists():
            return "missing frames", str(path)
        try:
            found_h, found_w = check_image(read_file(path), path)
        except InputError as error:
            return "unreadable frames", str(error)
        if (found_h, found_w) != (height, width):
            return OTHER_SIZE, f"{path} is {found_w} x {found_h}, not {width} x {height}"
        return None

    with ThreadPoolExecutor(workers) as pool:  # reading and checksums free the lock
        bar = tqdm(pool.map(wrong, size_of), "frames", len(size_of), disable=None)
        found = [each for each in bar if each]
    for kind, example in found:
        problems.add(kind, example)
    for video, why in stored_as.problems.items():
        report.remarks.add("videos that datasets.prepare has problems with", f"{video}: {why}")
    sound = f"{len(size_of) - len(found):,} are as they should be ({stored_as.stored_as()})"
    report.lines += ["", f"of {len(size_of):,} frames that count {sound}"]
    return not found
