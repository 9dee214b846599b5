"""Time the reading of frames: decoded from image files, and from a frame cache.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.frame_reading

Frames of 480 x 270 pixels are made with the spectrum of photographs, so that their files are
nearly as large as those of video frames, and read from the system's file cache. Each figure is CPU
time in one thread, the best of several rounds. `map` is the cache read through numpy.memmap;
`train GB` is what a cache of 166,785 such frames, Action Genome's training split, takes.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image
from tabulate import tabulate
from torchvision.transforms.v2 import functional as transforms

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import open_cache
from datasets.frames.cache_file import DATA
from datasets.frames.decode import check_image, decode
from datasets.frames.files import FrameFiles, FrameStore
from datasets.synthetic import ensure

NATIVE_HW = (270, 480)


def photograph(h: int, w: int, rng: np.random.Generator) -> Image.Image:
    """Make noise whose amplitudes fall with frequency as those of photographs do."""
    frequency = np.hypot(np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None])
    frequency[0, 0] = np.inf
    planes = []
    for power in (1.8, 2.1, 2.1, 2.1):
        waves = rng.normal(size=(2, *frequency.shape))
        plane = np.fft.irfft2((waves[0] + 1j * waves[1]) / frequency**power, (h, w))
        planes.append(plane / plane.std())
    luma, *colours = planes
    pixels = np.stack([120 + 45 * luma + 12 * colour for colour in colours], axis=-1)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def make_root(root: Path, videos: int, length: int) -> FrameTable:
    """Write PNG frames below `root`, and JPEG files beside them; return their table."""
    rng, listed = np.random.default_rng(0), []
    nothing = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
    for video in range(videos):
        folder = root / FRAMES_FOLDER / f"{video:05d}.mp4"
        folder.mkdir(parents=True)
        names = [f"{folder.name}/{number:06d}.png" for number in range(1, length + 1)]
        for name in names:
            image, path = photograph(*NATIVE_HW, rng), root / FRAMES_FOLDER / name
            image.save(path)
            image.save(path.with_suffix(".jpg"), quality=90)
        targets = [FrameTargets(name, NATIVE_HW, nothing[0][0], *nothing) for name in names]
        listed.append(Video(folder.name, tuple(targets)))
    return FrameTable.of(listed)


def best(rounds: int, run: Callable[[], object], times: int = 1) -> float:
    """Return the CPU seconds of a run in the fastest of `rounds` rounds of `times` runs."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(times):
            run()
        taken.append((time.process_time() - started) / times)
    return min(taken)


def decoding(kind: str, paths: Sequence[Path], rounds: int) -> tuple[str, float, float, float]:
    """Return bytes, and microseconds to check and to decode, per file."""
    files = [path.read_bytes() for path in paths]
    each = 1e6 / len(files)
    both = list(zip(files, paths, strict=True))
    checked = best(rounds, lambda: [check_image(data, path) for data, path in both]) * each
    decoded = best(rounds, lambda: [decode(path) for path in paths]) * each
    return kind, sum(map(len, files)) / len(files), checked, decoded


def caching(root: Path, table: FrameTable, size_hw: tuple[int, int], rounds: int) -> list:
    """Return a row of the table of caches, in microseconds per frame and megabytes."""
    files, folder = FrameFiles(root), root / f"cache-{size_hw[0]}x{size_hw[1]}"
    frames, videos = len(table.names_F), np.random.default_rng(0).permutation(len(table.lengths))
    each = 1e6 / frames

    def opened():
        return open_cache(folder, files, table, size_hw, source=files.identity(table))

    made, cache = best(1, opened), opened()
    kept_hw = cache.stored_size(NATIVE_HW)
    epoch = [
        (int(table.video_offsets[v]), [table.frame(v, t) for t in range(int(table.lengths[v]))])
        for v in videos.tolist()
    ]

    def read(store: FrameStore, resized: bool) -> None:
        for first, targets in epoch:
            frames_T3hw = store.read(first, targets)
            if resized:
                transforms.resize(frames_T3hw, list(kept_hw), antialias=True)

    mapped = np.memmap(folder / DATA, np.uint8, "r").reshape(len(table.lengths), -1)
    kept = (folder / DATA).stat().st_size
    whole = sum(path.stat().st_size for path in (root / FRAMES_FOLDER).glob("*/*.png"))
    return [
        f"{kept_hw[1]} x {kept_hw[0]}",
        made * each,
        best(rounds, lambda: read(files, resized=True)) * each,
        best(rounds, lambda: read(cache, resized=False), times=20) * each,
        best(rounds, lambda: [torch.from_numpy(mapped[v].copy()) for v in videos], 20) * each,
        whole / 1e6,
        kept / 1e6,
        166_785 * kept / frames / 1e9,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the reading of frames.")
    parser.add_argument("--videos", type=int, default=10)
    parser.add_argument("--length", type=int, default=20, help="frames per video")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        table = make_root(root, arguments.videos, arguments.length)
        pngs = [root / FRAMES_FOLDER / name for name in table.names_F.tolist()]
        made = ensure(root / "synthetic", progress=False, train_videos=5, test_videos=5)
        small = sorted((made / FRAMES_FOLDER).glob("*/*.png"))[: len(pngs)]
        print(f"Pillow {PIL.__version__}; load {os.getloadavg()[0]:.1f}\n")
        kinds = {
            "PNG 480 x 270": pngs,
            "JPEG q90 480 x 270": [path.with_suffix(".jpg") for path in pngs],
            "PNG 64 x 64, synthetic": small,
        }
        rows = [decoding(kind, paths, rounds) for kind, paths in kinds.items()]
        headers = ["microseconds per frame", "bytes", "check", "decode"]
        print(tabulate(rows, headers, floatfmt=",.0f"))
        print(f"\nmicroseconds per frame, {len(pngs)} PNG frames of 480 x 270")
        sizes = ((64, 64), (256, 256), NATIVE_HW)
        headers = ["kept size", "making", "decoded", "cached", "map"]
        headers += ["PNG MB", "cache MB", "train GB"]
        caches = [caching(root, table, size_hw, rounds) for size_hw in sizes]
        print(tabulate(caches, headers, floatfmt=",.1f"))
        seconds = best(rounds, lambda: FrameFiles(root).identity(table))
        print(f"\nidentity of the files: {seconds:.4f} s")


if __name__ == "__main__":
    main()
