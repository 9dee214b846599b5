"""Verify an Action Genome root: what is there against what its annotations ask for.

Prints what each rule leaves of both splits, how that compares with the published counts, and all
problems and remarks. Works before frames are there, too, and says which are missing. Ends with
status 0 if everything that is needed is there and readable, 1 if not, 2 if it cannot be verified.

F frames, M objects of all frames one after another, N boxes.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from datasets.annotations import read
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.annotations.rules import SMALL_BOXES
from datasets.cores import cores
from datasets.frames.decode import check_image, decode, read_file
from datasets.frames.manifest import Manifest, checksum_of, file_of, read_checksums, read_manifest
from datasets.frames.sizes import stored_size

SLACK = 1.0  # pixels that a box may stand out of the image before it is remarked on
ODD_BOXES = ("without an area", "outside the image", "partly outside the image")
ALTERED = "frames that are not as datasets.prepare wrote them"
OTHER_SIZE = "frames of another size than annotated"
_SMALL_BOXES = "default: computed, as in dataset=action_genome; keep for a synthetic root"


class Findings:
    """The findings about a root: `problems` are what is missing or wrong, `remarks` the rest."""

    def __init__(self, title: str) -> None:
        self.lines, self.problems, self.remarks = [title], Problems(), Problems()

    def __str__(self) -> str:
        lines = [*self.lines]
        for title, notes in (("remarks", self.remarks), ("problems", self.problems)):
            lines += [f"\n{title}:", *(f"  {line}" for line in notes.sentences())] if notes else []
        return "\n".join([*lines, f"\nproblems in all: {len(self.problems):,}"])


def verify(
    root: Path | str,
    *,
    small_boxes: str = "computed",
    decoded: bool = False,
    published: bool = False,
    workers: int = 1,
) -> Findings:
    """Compare all that is at `root` with what its annotations ask for, in both splits.

    `small_boxes` is one of `rules.SMALL_BOXES`; `workers` files are read at a time; `decoded`
    makes pixels of every frame, `published` makes other counts than published a problem. Raises
    `InputError` for annotation files that are missing or cannot be read.
    """
    entries_of, person_of = read.read_files(root, small_boxes)
    report = Findings(f"{root}: small boxes {small_boxes}, {len(entries_of):,} annotated frames")
    size_of: dict[str, tuple[int, int]] = {}
    for split in read.SPLITS:
        found = read.filter_annotations(entries_of, person_of, split, small_boxes=small_boxes)
        report.problems.merge(found.problems)
        _report_counts(found, split, report, published)
        if found.videos:
            _check_boxes(FrameTable.of(found.videos), report)
        else:
            report.problems.add("splits without a video that counts", split)
        size_of |= {f.name: f.size_hw for video in found.videos for f in video.frames}
    _check_frames(Path(root), size_of, report, decoded, workers)
    return report


def _report_counts(found: read.Annotations, split: str, report: Findings, published: bool) -> None:
    """Report what each rule left, and how that compares with the lengths embedded in `bload`."""
    headers = (split, "frames", "videos", "objects")
    rows = [(step.rule, step.frames, step.videos, step.objects) for step in found.steps]
    report.lines += ["", tabulate(rows, headers, intfmt=",")]
    lengths = action_genome_lengths(split)
    report.lines += [f"published are {len(lengths):,} videos, {lengths.sum():,} frames"]
    here, there = Counter(len(video.frames) for video in found.videos), Counter(lengths.tolist())
    notes = report.problems if published else report.remarks
    for n in sorted(here | there):
        if here[n] != there[n]:
            counts = f"{n} frames: {here[n]:,} here, {there[n]:,} published"
            notes.add(f"{split} videos of a length whose count is not as published", counts)


def _check_boxes(table: FrameTable, report: Findings) -> None:
    """Note boxes without an area or wholly outside as problems, partly outside as remarks."""
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


def _check_frames(
    root: Path, size_of: dict[str, tuple[int, int]], report: Findings, decoded: bool, workers: int
) -> None:
    """Read every frame that counts."""
    folder, problems, manifest = root / read.FRAMES_FOLDER, report.problems, None
    try:
        manifest = read_manifest(folder)
    except InputError as error:
        problems.add("manifests that cannot be read", str(error))
    stored_as, written = manifest or Manifest(), read_checksums(folder)

    def wrong(name: str) -> tuple[str, str] | None:
        """Return the kind of problem that a frame has, if any, and where."""
        file = file_of(name, stored_as.format) if manifest else name
        path, (height, width) = folder / file, stored_size(size_of[name], stored_as.short_side)
        if not path.exists():
            return "missing frames", str(path)
        try:
            data = read_file(path)
            found_h, found_w = check_image(data, path)
            if decoded:  # a picture may turn out to be turned
                found_h, found_w, _ = decode(path).shape
        except InputError as error:
            return "unreadable frames", str(error)
        if (found_h, found_w) != (height, width):
            return OTHER_SIZE, f"{path} is {found_w} x {found_h}, not {width} x {height}"
        altered = file in written and checksum_of(data) != written[file]
        return (ALTERED, str(path)) if altered else None

    with ThreadPoolExecutor(workers) as pool:  # reading, checksums and decoding free the lock
        bar = tqdm(pool.map(wrong, size_of), "frames", len(size_of), disable=None)
        found = [each for each in bar if each]
    for kind, example in found:
        problems.add(kind, example)
    for video, why in stored_as.problems.items():
        report.remarks.add("videos that datasets.prepare has problems with", f"{video}: {why}")
    sound = f"{len(size_of) - len(found):,} are as they should be ({stored_as.stored_as()})"
    report.lines += ["", f"of {len(size_of):,} frames that count {sound}"]
    if found and (root / read.MADE_BY).exists():
        report.lines.append("this root is synthetic: have it drawn anew at another --root")
    elif found:
        report.lines.append(
            f"python -m datasets.prepare --root {root} writes missing frames from the videos "
            '(Charades, "scaled to 480p"), with --check also those not as written'
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m datasets.verify", description=__doc__)
    add = parser.add_argument
    add("--root", required=True, help="folder with annotations/ and frames/")
    add("--small-boxes", choices=SMALL_BOXES, help=_SMALL_BOXES)
    add("--decode", action="store_true", help="make pixels of every frame, too")
    add("--published", action="store_true", help="fail if counts are not the published ones")
    add("--workers", type=int, default=cores(), help="files read at a time")
    args = parser.parse_args(arguments)
    default = "keep" if (Path(args.root) / read.MADE_BY).exists() else "computed"
    try:
        report = verify(
            args.root,
            small_boxes=args.small_boxes or default,
            decoded=args.decode,
            published=args.published,
            workers=max(1, args.workers),
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(report)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
