"""Evaluation: its speed beside training's, the measure alone, and the reading of frames.

The measure gets as many frames as Action Genome's test split, repeated from the synthetic one. Each
has 100 pairs around the true ones, so that most triplets have several candidates. Frames to read
are crops of a photograph (matplotlib's sample) with a camera's noise, from the system's file cache.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image
from scipy.special import softmax
from torch import Tensor
from torch.utils.benchmark import Timer
from torchvision.transforms.v2 import functional as transforms

from datasets.action_genome import VideoSource
from datasets.annotations.read import FRAMES_FOLDER
from datasets.annotations.targets import FrameTargets, Video
from datasets.build import build_source
from datasets.frames.cache import FrameCache
from datasets.frames.files import FrameFiles
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.recall import RecallMeter
from experiments.benchmarks import Row, Table, make_job
from experiments.interleaved import ALONE, Contender
from training.evaluation import evaluate

CODE = ("models", "datasets/frames", "datasets/scoring", "training/evaluation.py")
ROUNDS, PAIRS = 4, 100
FRAMES, TRAIN_FRAMES = 54_371, 166_785
"""Frames of Action Genome's test and training split."""
GB = f"GB for {TRAIN_FRAMES:,}"
NATIVE_HW, LENGTH, WAYS = (270, 480), 40, ("decoded and resized", "from the cache")


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of evaluation, in turns with training, and of reading."""
    contender = Contender(make_job(quick))
    source = build_source(contender.cfg.dataset, "test", progress=True)
    model, slots = contender.training.model, contender.cfg.train.batch_slots
    frames, seconds = np.zeros(2), np.zeros(2)  # of training and evaluation
    for _ in range(1 if quick else ROUNDS):
        turn, figures = contender.take_steps(10), evaluate(model, source, ALONE, batch_slots=slots)
        frames += (sum(turn.frames), figures["frames"])
        seconds += (sum(turn.seconds), figures["seconds"])
    training, evaluation = frames / seconds
    count = 200 if quick else FRAMES
    measure_label = f"the measure alone, {PAIRS} pairs per frame"
    speeds = {"training": training, "evaluation": evaluation}
    for name, speed in (speeds | {measure_label: count / time_measure(source, count)}).items():
        row = {"table": "evaluation", "of `dds_tiny`": name, "frames/s": speed}
        yield row | ({"of training": speed / training} if name in speeds else {})
    with tempfile.TemporaryDirectory() as folder:
        yield from time_reading(Path(folder), quick)


def time_measure(source: VideoSource, count: int) -> float:
    """Return the seconds of checks, ranking and summary, on the source's targets, repeated."""
    rng, meter, seconds, frame_count = np.random.default_rng(0), RecallMeter(), 0.0, 0
    videos = cycle(range(len(source)))
    while frame_count < count:
        video = next(videos)
        frames = source.targets(video, 0, int(source.lengths[video]))
        targets = [replace(target, name=f"{frame_count} {target.name}") for target in frames]  # new
        predictions = [FramePrediction(**draw_pairs(rng, target)) for target in targets]
        began = time.perf_counter()
        meter.update(predictions, targets)
        seconds, frame_count = seconds + time.perf_counter() - began, frame_count + len(targets)
    began = time.perf_counter()
    meter.summary()
    return (seconds + time.perf_counter() - began) * count / frame_count


def draw_pairs(rng: np.random.Generator, target: FrameTargets) -> dict[str, np.ndarray]:
    """Draw the fields of a prediction: boxes around the true ones, scores as skewed as usual."""
    m_P = rng.integers(len(target.object_classes_M), size=PAIRS)
    shift_P4 = np.repeat(rng.normal(0, 1, (PAIRS, 2)), 2, axis=0).reshape(PAIRS, 4)
    logits_PR = rng.normal(-1, 2, (PAIRS, 26)).astype(np.float32)
    scores_PR = 1 / (1 + np.exp(-logits_PR))
    scores_PR[:, :3] = softmax(logits_PR[:, :3], axis=1)
    right_P, others_P = rng.random(PAIRS) < 0.7, rng.integers(2, 37, PAIRS)
    return {
        "person_boxes_P4": (target.person_box_4 + shift_P4).astype(np.float32),
        "object_boxes_P4": (target.object_boxes_M4[m_P] + shift_P4).astype(np.float32),
        "object_classes_P": np.where(right_P, target.object_classes_M[m_P], others_P),
        "person_scores_P": rng.random(PAIRS, dtype=np.float32),
        "object_scores_P": rng.random(PAIRS, dtype=np.float32),
        "relation_scores_PR": scores_PR,
    }


def time_reading(root: Path, quick: bool) -> Iterator[Row]:
    """Yield a row for each size in which frames are kept."""
    video, files = make_video(root), FrameFiles(root)
    targets = list(video.frames)
    for size_hw in ((64, 64), (256, 256), NATIVE_HW):
        folder = root / f"cache-{size_hw[0]}x{size_hw[1]}"
        cache = FrameCache(folder, files, [video], size_hw)
        row: Row = {"table": "reading", "kept within": f"{size_hw[0]} x {size_hw[1]}"}
        from_files = partial(decode, files, targets, cache.stored_size(NATIVE_HW))
        for name, read in zip(WAYS, (from_files, partial(cache.read, 0, 0, targets)), strict=True):
            timer = Timer("read()", globals={"read": read})
            seconds = timer.blocked_autorange(min_run_time=0.01 if quick else 2).median
            row[name] = 1e6 * seconds / LENGTH
        yield row | {GB: TRAIN_FRAMES * cache.paths[0].stat().st_size / LENGTH / 1e9}


def decode(files: FrameFiles, targets: list[FrameTargets], size_hw: tuple[int, int]) -> Tensor:
    """Read frames from their files, and resize them."""
    return transforms.resize(files.read(0, 0, targets), [*size_hw], antialias=True)


def make_video(root: Path) -> Video:
    """Write the PNG frames of a video below `root`."""
    rng, (height, width) = np.random.default_rng(0), NATIVE_HW
    sample = Image.open(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg")
    photograph = np.asarray(sample.resize((540, 600)), np.float32)
    names = [f"00000.mp4/{number:06d}.png" for number in range(1, LENGTH + 1)]
    (root / FRAMES_FOLDER / names[0]).parent.mkdir(parents=True)
    for name in names:
        y, x = rng.integers(600 - height), rng.integers(540 - width)
        crop = photograph[y : y + height, x : x + width]
        pixels = (crop + rng.normal(0, 2, crop.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / FRAMES_FOLDER / name)
    nothing = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
    targets = [FrameTargets(name, NATIVE_HW, nothing[0][0], *nothing) for name in names]
    return Video("00000.mp4", tuple(targets))


SPEEDS = {"of `dds_tiny`": "", "frames/s": ",.0f", "of training": ".2f"}
READING = {"kept within": "", WAYS[0]: ",.0f", WAYS[1]: ".1f", GB: ".1f"}
TABLES = {
    "evaluation": Table("Evaluation compared with training:", SPEEDS),
    "reading": Table("Microseconds of one core for a frame of 270 x 480:", READING),
}
