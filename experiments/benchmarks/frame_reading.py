"""Time the reading of frames: decoded from image files, and from a frame cache.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.frame_reading

Frames of 480 x 270 pixels are crops of a photograph (matplotlib's sample) with a camera's noise,
read from the system's file cache. Each figure is CPU time in one thread, in microseconds per frame,
the best of several rounds. `train GB` is what a cache of 166,785 such frames, Action Genome's
training split, takes.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image
from tabulate import tabulate
from torchvision.transforms.v2 import functional as transforms

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import DATA, open_cache
from datasets.frames.decode import check_image, decode
from datasets.frames.files import FrameFiles, FrameStore

NATIVE_HW = (270, 480)
VIDEOS, LENGTH, ROUNDS = 10, 20, 5


def make_videos(
    root: Path, videos: int = VIDEOS, length: int = LENGTH, size_hw: tuple[int, int] = NATIVE_HW
) -> list[Video]:
    """Write PNG frames of so many videos below `root`."""
    rng, listed = np.random.default_rng(0), []
    sample = Image.open(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg")
    height, width = max(600, size_hw[0] + 60), max(512, size_hw[1] + 60)
    photograph = np.asarray(sample.resize((width, height)), np.float32)
    nothing = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
    for video in range(videos):
        names = [f"{video:05d}.mp4/{number:06d}.png" for number in range(1, length + 1)]
        (root / FRAMES_FOLDER / names[0]).parent.mkdir(parents=True)
        for name in names:
            y, x = rng.integers(height - size_hw[0]), rng.integers(width - size_hw[1])
            crop = photograph[y:, x:][: size_hw[0], : size_hw[1]]
            pixels = (crop + rng.normal(0, 2, crop.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / FRAMES_FOLDER / name)
        targets = [FrameTargets(name, size_hw, nothing[0][0], *nothing) for name in names]
        listed.append(Video(f"{video:05d}.mp4", tuple(targets)))
    return listed


def best(rounds: int, run: Callable[[], object]) -> float:
    """Return the CPU microseconds per frame of the fastest of some runs over all frames."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return min(taken) * 1e6 / (VIDEOS * LENGTH)


def caching(root: Path, table: FrameTable, size_hw: tuple[int, int]) -> list:
    """Return a row of the table of caches."""
    files, folder = FrameFiles(root), root / f"cache-{size_hw[0]}x{size_hw[1]}"
    made = best(1, lambda: open_cache(folder, files, table, size_hw))
    cache = open_cache(folder, files, table, size_hw)
    kept_hw = cache.stored_size(NATIVE_HW)
    epoch = [
        (int(table.video_offsets[video]), [table.frame(video, t) for t in range(LENGTH)])
        for video in np.random.default_rng(0).permutation(VIDEOS).tolist()
    ]

    def read(store: FrameStore) -> None:
        for first, targets in epoch:
            frames_T3hw = store.read(first, targets)
            if store is files:
                transforms.resize(frames_T3hw, list(kept_hw), antialias=True)

    gigabytes = 166_785 * (folder / DATA).stat().st_size / (VIDEOS * LENGTH) / 1e9
    decoded, cached = best(ROUNDS, lambda: read(files)), best(20 * ROUNDS, lambda: read(cache))
    return [f"{kept_hw[1]} x {kept_hw[0]}", made, decoded, cached, gigabytes]


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        table = FrameTable.of(make_videos(root))
        paths = [root / FRAMES_FOLDER / name for name in table.names_F.tolist()]
        files = [(path.read_bytes(), path) for path in paths]
        checked = best(ROUNDS, lambda: [check_image(*file) for file in files])
        decoded = best(ROUNDS, lambda: [decode(path) for path in paths])
        size = sum(len(data) for data, _ in files) / len(files)
        print(f"PNG: {size:,.0f} bytes, {checked:,.0f} to check, {decoded:,.0f} to decode\n")
        caches = [caching(root, table, hw) for hw in ((64, 64), (256, 256), NATIVE_HW)]
        headers = ["kept size", "making", "decoded", "cached", "train GB"]
        print(tabulate(caches, headers, floatfmt=",.1f"))


if __name__ == "__main__":
    main()
