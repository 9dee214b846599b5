"""Check of an Action Genome root: files that exist, that are missing, and the next command.

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

from bload import InputError, action_genome_lengths
from datasets.annotations import read
from datasets.annotations.frame_names import video_of
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.frames.decode import check_image, read_file
from datasets.frames.manifest import Manifest, file_name, read_manifest
from datasets.frames.sizes import gib, stored_size
from datasets.prepare.folder import VIDEOS_FOLDER
from datasets.synthetic.world import SPLITS

SLACK = 1.0  # pixels by which a box may leave the image without a remark
ODD_BOXES = ("without an area", "outside the image", "partly outside the image")
OTHER_SIZE = "frames of another size than annotated; remove the folders of their videos"
FROM_0 = "videos whose frames are numbered from 0, so that each is one off; extract them from 1"


class Findings:
    """Findings about a root: `problems` are missing or wrong, `remarks` are the rest."""

    def __init__(self, title: str) -> None:
        self.lines, self.problems, self.remarks = [title], Problems(), Problems()

    def __str__(self) -> str:
        lines = [*self.lines]
        for title, notes in (("remarks", self.remarks), ("problems", self.problems)):
            lines += [f"\n{title}:", *(f"  {line}" for line in notes.sentences())] if notes else []
        return "\n".join([*lines, f"\nproblems in all: {len(self.problems):,}"])


def check(root: Path, workers: int = 1) -> tuple[Findings, str]:
    """Compare all files at `root` with its annotations, in every split.

    Args:
        workers: files read at a time.

    Returns:
        The findings, and the command to type next; empty if something has to be done first.

    Raises:
        InputError: annotation files are missing or cannot be read.
    """
    synthetic = (root / read.KNOBS_FILE).exists()
    small_boxes = "keep" if synthetic else "computed"
    entries_of, person_of = read.read_files(root, small_boxes)
    report = Findings(f"{root}: small boxes {small_boxes}, {len(entries_of):,} annotated frames")
    size_of: dict[str, tuple[int, int]] = {}
    for split in SPLITS if synthetic else read.SPLITS:
        annotations = read.filter_annotations(entries_of, person_of, split, small_boxes=small_boxes)
        report.problems.merge(annotations.problems)
        _report_counts(annotations, split, report, compared=not synthetic)
        if annotations.videos:
            table = FrameTable.from_videos(annotations.videos)
            _check_boxes(table, report)
            for name in table.unlabelled if split != "train" else ():
                report.problems.add("frames without a relation, which recall cannot count", name)
        else:
            report.problems.add("splits without a video that counts", split)
        size_of |= {frame.name: frame.size_hw for v in annotations.videos for frame in v.frames}
    annotations_fine = not report.problems
    frames_fine = _check_frames(root, size_of, report, workers)
    if not synthetic:
        videos = {video_of(name) for name in entries_of}
        count = sum((root / VIDEOS_FOLDER / video).is_file() for video in videos)
        report.lines += [
            f"of {len(videos):,} annotated videos {count:,} are in {VIDEOS_FOLDER}/",
            f"{gib(shutil.disk_usage(root).free)} of the disk are free",
        ]
    if annotations_fine and frames_fine:
        data = "dataset=synthetic" if synthetic else "experiment=action_genome"
        return report, f"torchrun --shutdown-timeout 120 train.py {data} dataset.root={root}"
    extract = annotations_fine and not synthetic
    return report, f"python -m datasets.prepare --root {root}" if extract else ""


def _report_counts(
    annotations: read.Annotations, split: str, report: Findings, *, compared: bool
) -> None:
    """Report what each rule left, `compared` with the lengths embedded in `bload`."""
    headers = (split, "frames", "videos", "objects")
    rows = [(step.rule, step.frames, step.videos, step.objects) for step in annotations.steps]
    report.lines += ["", tabulate(rows, headers, intfmt=",")]
    if not compared:
        return
    lengths = action_genome_lengths(split)
    report.lines += [f"published are {len(lengths):,} videos, {lengths.sum():,} frames"]
    counts = Counter(len(video.frames) for video in annotations.videos)
    published = Counter(lengths.tolist())
    for n in sorted(counts | published):
        if counts[n] != published[n]:
            example = f"{n} frames: {counts[n]:,} here, {published[n]:,} published"
            report.remarks.add(f"{split} videos of a length that is not as published", example)


def _check_boxes(table: FrameTable, report: Findings) -> None:
    """Note sizes that differ within a video as problems, odd boxes as remarks."""
    try:
        table.sizes()
    except InputError as error:
        report.problems.add("frames annotated in another size than their video", str(error))
    frames_F = np.arange(len(table.names_F))
    for box_kind, boxes_N4, frame_N in (
        ("object", table.object_boxes_M4, np.repeat(frames_F, np.diff(table.object_offsets))),
        ("person", table.person_boxes_F4, frames_F),
    ):
        height_N, width_N = table.sizes_F2[frame_N].T
        x1_N, y1_N, x2_N, y2_N = boxes_N4.T
        flat_N = (x2_N <= x1_N) | (y2_N <= y1_N)
        outside_N = (x1_N >= width_N) | (y1_N >= height_N) | (x2_N <= 0) | (y2_N <= 0)
        partly_N = (x2_N > width_N + SLACK) | (y2_N > height_N + SLACK)
        partly_N |= np.minimum(x1_N, y1_N) < -SLACK
        kind_N = np.select([flat_N, outside_N, partly_N], [0, 1, 2], 3)
        for row in np.flatnonzero(kind_N < 3):
            corners = ", ".join(f"{number:g}" for number in boxes_N4[row])
            frame, size = table.names_F[frame_N[row]], f"{width_N[row]} x {height_N[row]}"
            report.remarks.add(
                f"{box_kind} boxes {ODD_BOXES[kind_N[row]]}", f"{frame} ({corners} in {size})"
            )


def _check_frames(
    root: Path, size_of: dict[str, tuple[int, int]], report: Findings, workers: int
) -> bool:
    """Read every frame that counts; return True if all are as they should be."""
    folder, manifest = root / read.FRAMES_FOLDER, None
    try:
        manifest = read_manifest(folder)
    except InputError as error:
        report.problems.add("manifests that cannot be read", str(error))
    stored_as = manifest or Manifest()

    def find_problem(name: str) -> tuple[str, str] | None:
        """Return the kind of problem that a frame has, if any, and its place."""
        path = folder / (file_name(name, stored_as.format) if manifest else name)
        if not path.exists():
            return "missing frames", str(path)
        try:
            height, width = check_image(read_file(path), path)
        except InputError as error:
            return "unreadable frames; remove them", str(error)
        right_h, right_w = stored_size(size_of[name], stored_as.short_side)
        if (height, width) != (right_h, right_w):
            return OTHER_SIZE, f"{path} is {width} x {height}, not {right_w} x {right_h}"
        return None

    with ThreadPoolExecutor(workers) as pool:  # reading and checksums free the lock
        results = tqdm(pool.map(find_problem, size_of), "frames", len(size_of), disable=None)
        problems = [problem for problem in results if problem]
    for kind, example in problems:
        report.problems.add(kind, example)
    frames_0 = {
        folder / file_name(f"{video_of(name)}/000000.png", stored_as.format) for name in size_of
    }
    for path in sorted(path for path in frames_0 if path.exists()):
        report.problems.add(FROM_0, str(path))
    for video, problem in stored_as.problems.items():
        report.remarks.add("videos that datasets.prepare has problems with", f"{video}: {problem}")
    count_text = f"{len(size_of) - len(problems):,} are as they should be ({stored_as.describe()})"
    report.lines += ["", f"of {len(size_of):,} frames that count {count_text}"]
    return not problems
