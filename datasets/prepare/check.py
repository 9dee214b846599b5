"""A root against what its annotations ask for: annotations, class lists, boxes and frame files.

F frames, M objects of all frames one after another.
"""

import shlex
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from datasets.annotations import read
from datasets.annotations.entries import FAULTS
from datasets.annotations.frame_names import frames_by_video, is_frame_name
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.annotations.rules import visible_objects, without_small
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, without_separators
from datasets.frames.decode import check_image, decode_image, read_file
from datasets.frames.manifest import checksum_of, read_manifest
from datasets.frames.one_writer import is_locked
from datasets.frames.sizes import stored_size
from datasets.prepare.folder import LOCK, FramesFolder

SLACK = 1.0  # pixels that a box may stand out of the image before it is remarked on
ODD_BOXES = ("without an area", "outside the image", "partly outside the image")
CLASS_LISTS = {"object_classes.txt": OBJECTS[1:], "relationship_classes.txt": RELATIONS}
ALTERED = "frames that are not as datasets.prepare wrote them"
OTHER_SIZE = "frames of another size than annotated"


@dataclass
class Report:
    """The findings about a root: `str` for readers, `as_dict` for machines.

    `problems` are what is needed and missing or wrong, `remarks` the rest, `remedies` the ways out.
    """

    figures: dict[str, Any]
    lines: list[str]
    problems: Problems = field(default_factory=Problems)
    remarks: Problems = field(default_factory=Problems)
    remedies: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for json."""
        notes = {"problems": self.problems.as_list(), "remarks": self.remarks.as_list()}
        return self.figures | {"ok": not self.problems} | notes

    def __str__(self) -> str:
        lines, count = [*self.lines], len(self.problems)
        for title, notes in (("remarks", self.remarks), ("problems", self.problems)):
            lines += [f"\n{title}:", *(f"  {line}" for line in notes.sentences())] if notes else []
        verdict = f"{count:,} problem{'' if count == 1 else 's'}"
        verdict = verdict if count else "everything that is needed is there"
        return "\n".join([*lines, "", "; ".join([verdict, *self.remedies])])


def verify(
    root: Path | str, *, small_boxes: str = "file", decode: bool = False, workers: int = 1
) -> Report:
    """Compare all that is at `root` with what its annotations ask for, in both splits.

    `small_boxes` is one of `rules.SMALL_BOXES`; `workers` files are read at a time, and with
    `decode` pixels are made of every frame. Raises `InputError` for annotation files that are
    missing or cannot be read.
    """
    if workers < 1:
        raise InputError(f"--workers is {workers}; give at least 1")
    objects_path, persons_path = read.annotation_files(root, small_boxes)
    entries_of, person_of = read.read_pickles(objects_path, persons_path)
    figures = {"root": str(root), "small_boxes": small_boxes, "splits": {}}
    report = Report(figures, [f"{root}: small boxes {small_boxes}"])
    _check_class_lists(objects_path.parent, report)
    annotated = set(filter(is_frame_name, entries_of))
    whole_path = objects_path.with_name(read.OBJECTS_FILE)
    if whole_path != objects_path and whole_path.exists():
        [whole] = read.read_pickles(whole_path)
        annotated |= set(filter(is_frame_name, whole))
        _compare_small_boxes(entries_of, whole, report)
    others, size_of = len(entries_of), dict[str, tuple[int, int]]()
    for split in read.SPLITS:
        annotations = read.filter_annotations(
            entries_of, person_of, split, small_boxes=small_boxes, problems=report.problems
        )
        _report_counts(annotations, split, report)
        if annotations.videos:
            _check_boxes(FrameTable.of(annotations.videos), report)
        else:
            report.problems.add("splits without a video that counts", split)
        size_of |= {f.name: f.size_hw for video in annotations.videos for f in video.frames}
        others -= annotations.counts.frames_in_split
    if others:
        report.remarks.add("frames in no split that is read, or with a faulty name", f"{others:,}")
    _check_frames(Path(root), size_of, annotated, report, decode, workers)
    return report


def _check_class_lists(folder: Path, report: Report) -> None:
    for path, names in ((folder / file, names) for file, names in CLASS_LISTS.items()):
        if not path.exists():
            report.remarks.add("class lists that are not there (not needed)", str(path))
            continue
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        found = [without_separators(line) for line in lines if line.strip()]
        wanted = [without_separators(name) for name in names]
        if found != wanted:
            odd = ", ".join(sorted({*found} ^ {*wanted})[:3]) or "their order"
            kind = "class lists that do not agree with the vocabulary"
            report.problems.add(kind, f"{path} ({len(found)} of {len(wanted)} classes; see {odd})")


def _compare_small_boxes(published: dict, whole: dict, report: Report) -> None:
    """Note frames where the published file leaves other objects than the computed rule."""
    kind = "frames where --small-boxes computed leaves other objects than the file does"
    for name, entries in whole.items():
        try:
            computed = [entry["class"] for entry in without_small(entries)]
            kept = [entry["class"] for entry in visible_objects(published.get(name, []))]
        except FAULTS:
            continue
        if computed != kept:
            report.remarks.add(kind, f"{name} ({len(computed)} for {len(kept)})")


def _report_counts(annotations: read.Annotations, split: str, report: Report) -> None:
    """Report what each rule left, and how that compares with the lengths embedded in `bload`."""
    lengths, published = [len(v.frames) for v in annotations.videos], action_genome_lengths(split)
    here, there = Counter(lengths), Counter(published.tolist())
    odd = {n: (here[n], there[n]) for n in sorted(here | there) if here[n] != there[n]}
    steps = annotations.counts.steps
    report.figures["splits"][split] = {
        "steps": [asdict(step) for step in steps],
        "as_published": not odd,
        "published": {"videos": len(published), "frames": int(published.sum()), "lengths": odd},
    }
    rows = [
        (s.rule, s.frames, s.videos, s.objects, b.frames - s.frames, b.videos - s.videos)
        for b, s in zip((steps[0], *steps), steps, strict=False)
    ]
    headers = (split, "frames", "videos", "objects", "frames out", "videos out")
    said = f"published are {len(published):,} videos, {published.sum():,} frames"
    first = [f"{n} frames: {a:,} here, {b:,} published" for n, (a, b) in list(odd.items())[:5]]
    differ = f"{len(odd)} lengths differ ({'; '.join(first)})" if odd else "all lengths agree"
    report.lines += ["", tabulate(rows, headers, intfmt=","), f"{said}; {differ}"]


def _check_boxes(table: FrameTable, report: Report) -> None:
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
            example = (
                f"{table.names_F[frame_of_N[row]]} ({corners} in {wide_N[row]} x {high_N[row]})"
            )
            notes = report.remarks if odd_N[row] == 2 else report.problems
            notes.add(f"{what} boxes {ODD_BOXES[odd_N[row]]}", example)


def _check_frames(
    root: Path,
    size_of: dict[str, tuple[int, int]],
    annotated: set[str],
    report: Report,
    decode: bool,
    workers: int,
) -> None:
    """Read every frame that counts; of other annotated files compare the size in bytes."""
    path, problems, manifest = root / read.FRAMES_FOLDER, report.problems, None
    try:
        manifest = read_manifest(path)
    except InputError as error:
        problems.add("manifests that cannot be read", str(error))
    before, folder = len(problems), FramesFolder(root, frames_by_video(annotated), manifest)
    needed = {folder.file_of(name): size_hw for name, size_hw in size_of.items()}
    for file in sorted(needed.keys() - folder.size_of.keys()):
        problems.add("missing frames", str(path / file))
    for file in sorted(folder.altered - needed.keys()):
        problems.add(ALTERED, f"{file} ({folder.size_of[file]:,} bytes)")
    for file in sorted(folder.size_of.keys() - set(folder.files)):
        report.remarks.add("files in frames/ that no annotation asks for", file)
    there = [file for file in needed if file in folder.size_of]
    with ThreadPoolExecutor(workers) as pool:  # reading, checksums and decoding free the lock
        found = pool.map(partial(_check_file, folder, needed, decode), there)
        for wrong in filter(None, tqdm(found, "frames", len(there), disable=None)):
            problems.add(*wrong)
    if manifest and not manifest.complete and len(folder.sound) > manifest.frames:
        counts = f"{len(folder.sound):,} frames are there, the manifest has {manifest.frames:,}"
        problems.add("extractions that are going on or were cut short", counts)
    for video, why in folder.problems.items():
        report.remarks.add("videos that datasets.prepare has problems with", f"{video}: {why}")
    if len(problems) > before:
        report.remedies += _remedies(root, folder, OTHER_SIZE in problems.counts())
    annotated_there = sum(file in folder.size_of for file in folder.files)
    stored_as = f"{manifest.stored_as()}, {manifest.decoder}" if manifest else "PNG, native size"
    report.figures["frame_format"] = stored_as
    report.figures["frames"] = {
        "needed": len(needed),
        "there": len(there),
        "annotated": len(folder.files),
        "annotated there": annotated_there,
        "not asked for": len(folder.size_of) - annotated_there,
        "decoded": len(there) if decode else 0,
    }
    table = tabulate(report.figures["frames"].items(), intfmt=",", tablefmt="plain")
    report.lines += ["", f"frames: {stored_as}", table]


def _check_file(
    folder: FramesFolder, needed: dict[str, tuple[int, int]], decode: bool, file: str
) -> tuple[str, str] | None:
    """Return the kind of problem that a file has, if any, and where."""
    path, written = folder.path / file, folder.written.get(file)
    size_hw = stored_size(needed[file], folder.manifest.short_side if folder.manifest else None)
    try:
        data = read_file(path)
        # Decoded, a picture may turn out to be turned.
        found_hw = decode_image(data, path).shape[:2] if decode else check_image(data, path)
    except InputError as error:
        return "unreadable frames", str(error)
    if found_hw != size_hw:
        return (
            OTHER_SIZE,
            f"{path} is {found_hw[1]} x {found_hw[0]}, not {size_hw[1]} x {size_hw[0]}",
        )
    return (ALTERED, str(path)) if written and checksum_of(data) != written else None


def _remedies(root: Path, folder: FramesFolder, other_size: bool) -> list[str]:
    """Return what to do about frames that are missing or wrong."""
    prepare = f"python -m datasets.prepare --root {shlex.quote(str(root))}"
    if is_locked(root / LOCK):
        return [f"{prepare} is running: wait until it is done and verify again"]
    if (root / read.MADE_BY).exists() and not folder.videos.exists():
        return ["this root is synthetic: have it drawn anew at another --root"]
    if folder.manifest is None and folder.size_of:
        return ["make the frames that are named again, as the others were made"]
    missing = f"{prepare} writes missing frames, with --check also those not as written"
    edition = (
        f'if {folder.videos} has another edition than Charades\' "scaled to 480p", replace it, '
        "remove the frames of another size and run that again"
    )
    return [missing, edition] if other_size else [missing]
