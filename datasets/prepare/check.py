"""Check of an Action Genome root: files that exist, that are missing, and the next command.

Nothing is written.
"""

import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tabulate import tabulate
from tqdm import tqdm

from bload import InputError, action_genome_lengths
from datasets.annotations import read
from datasets.annotations.frame_names import video_of
from datasets.annotations.problems import Problems
from datasets.files import reading
from datasets.frames.files import decode
from datasets.prepare.extract import VIDEOS_FOLDER
from datasets.synthetic.world import SPLITS, World


def check(root: Path, workers: int = 1) -> tuple[str, Problems, str]:
    """Compare all files at `root` with its annotations, in every split.

    Args:
        workers: files read at a time.

    Returns:
        the report; the problems in it; the command to type next, empty if something has to be done
        first.

    Raises:
        InputError: annotation files are missing or cannot be read.
    """
    synthetic = (root / read.KNOBS_FILE).exists()
    small_boxes = "keep" if synthetic else "computed"
    entries_of, person_of = read.read_files(root, small_boxes)
    lines, problems = [f"{root}: {len(entries_of):,} annotated frames"], Problems()
    size_of: dict[str, tuple[int, int]] = {}
    for split in SPLITS if synthetic else read.PUBLISHED_SPLITS:
        annotations = read.filter_annotations(entries_of, person_of, split, small_boxes)
        add_problems(problems, split, annotations)
        heads = (split, "frames", "videos", "objects")
        lines += ["", tabulate(annotations.remaining, heads, intfmt=",")]
        if not synthetic:
            lengths = action_genome_lengths(split)
            lines += [f"published are {lengths.sum():,} frames of {len(lengths):,} videos"]
        frames = (frame for video in annotations.videos for frame in video.frames)
        size_of |= {frame.name: frame.size_hw for frame in frames}
    annotations_are_right = not problems
    with ThreadPoolExecutor(workers) as pool:  # decoding frees the lock
        paths = (root / read.FRAMES_FOLDER / name for name in size_of)
        jobs = pool.map(find_problem, paths, size_of.values())
        found = [problem for problem in tqdm(jobs, "frames", len(size_of), disable=None) if problem]
    for kind, example in found:
        problems.add(kind, example)
    right, videos = len(size_of) - len(found), {video_of(str(name)) for name in entries_of}
    lines += ["", f"of {len(size_of):,} frames that count {right:,} are as they should be"]
    if not synthetic:
        count = sum((root / VIDEOS_FOLDER / video).is_file() for video in videos)
        lines += [f"of {len(videos):,} annotated videos {count:,} are in {VIDEOS_FOLDER}/"]
    lines += ["", f"problems in all: {len(problems):,}", *problems.sentences()]
    command = ""
    if not problems:
        command = training_command(root)
    elif annotations_are_right and not synthetic:
        command = f"python -m datasets.prepare --root {shlex.quote(str(root))}"
    return "\n".join(lines), problems, command


def add_problems(problems: Problems, split: str, annotations: read.Annotations) -> None:
    """Add what is wrong with the annotations of a split."""
    for kind, examples in annotations.problems.examples.items():
        problems.add(kind, *examples)
    if not annotations.videos:
        problems.add("splits without a video that counts", split)
    for video in annotations.videos:
        for frame in video.frames:
            if split != "train" and not len(frame.relations_G2):
                problems.add("frames without a relation, which recall cannot count", frame.name)
            if frame.size_hw != video.frames[0].size_hw:
                problems.add("frames annotated in another size than their video", frame.name)


def training_command(root: Path) -> str:
    """Return the command that trains on a root, with the values of a synthetic one.

    Raises:
        InputError: the file with these values cannot be read.
    """
    data, quoted, knobs_file = ["experiment=action_genome"], str(root), root / read.KNOBS_FILE
    if knobs_file.exists():
        with reading(knobs_file, "put it back, or make another root"):
            knobs = json.loads(knobs_file.read_text())
        changed = [k for k, usual in World().knobs.items() if knobs.get(k, usual) != usual]
        data = ["dataset=synthetic", *(f"dataset.{key}={knobs[key]}" for key in changed)]
    if re.search(r"[^\w/.-]|[^ -~]", quoted):
        quoted = f'"{root}"'  # Hydra's own quotes
    root_key = f"dataset.root={shlex.quote(quoted)}"
    return f"torchrun --shutdown-timeout 120 train.py {' '.join(data)} {root_key}"


def find_problem(path: Path, size_hw: tuple[int, int]) -> tuple[str, str] | None:
    """Return the kind of problem that the file of a frame has, if any, and its place."""
    if not path.exists():
        return "missing frames", str(path)
    if path.with_name("000000.png").exists():
        return "videos with frames numbered from 0, not 1, so each is one off", str(path.parent)
    try:
        height, width = decode(path).shape[:2]
    except InputError as error:
        return "unreadable frames; remove them", str(error)
    if (height, width) != size_hw:
        size = f"{path} is {width} x {height}, not {size_hw[1]} x {size_hw[0]}"
        return "frames of another size than annotated; remove the folders of their videos", size
    return None
