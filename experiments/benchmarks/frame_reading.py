"""How long reading frames takes: by decoder, and with and without a frame cache.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.frame_reading

Frames of 480 x 270 pixels are made with the spectrum of photographs, so that their files are
nearly as large as those of video frames, and read from the system's file cache. Each figure is CPU
time in one thread, the best of several rounds. `map` is the cache read through numpy.memmap;
`train GB` what a cache of 166,785 such frames, Action Genome's training split, takes.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as transforms

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import DATA, open_cache
from datasets.frames.decode import _by_pillow, _by_torchcodec, decode, decoder_name
from datasets.frames.identity import frames_identity
from datasets.frames.image_header import read_header
from datasets.frames.store import FrameStore
from datasets.synthetic import ensure


class Files:
    """A frame store that decodes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        return size_hw

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        return torch.stack([decode(self.root / FRAMES_FOLDER / each.name) for each in targets])


def photograph(h: int, w: int, rng: np.random.Generator) -> Image.Image:
    """Noise whose amplitudes fall with frequency as those of photographs do."""
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


def make_root(root: Path, videos: int, length: int, size_hw: tuple[int, int]) -> FrameTable:
    """PNG frames below `root`, and their table."""
    rng, listed = np.random.default_rng(0), []
    nothing = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
    for video in range(videos):
        folder = root / FRAMES_FOLDER / f"{video:05d}.mp4"
        folder.mkdir(parents=True)
        names = [f"{folder.name}/{number:06d}.png" for number in range(1, length + 1)]
        for name in names:
            photograph(*size_hw, rng).save(root / FRAMES_FOLDER / name)
        targets = [FrameTargets(name, size_hw, nothing[0][0], *nothing) for name in names]
        listed.append(Video(folder.name, tuple(targets)))
    return FrameTable.of(listed)


def best(rounds: int, run: Callable[[], object]) -> float:
    """CPU seconds of the fastest of `rounds` runs."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return min(taken)


def report_decoders(kind: str, paths: Sequence[Path], rounds: int) -> None:
    files = [path.read_bytes() for path in paths]
    headers = [read_header(data) for data in files]
    each = 1e6 / len(files)
    checked = best(rounds, lambda: [read_header(data) for data in files]) * each
    pillow = best(rounds, lambda: [_by_pillow(data) for data in files]) * each
    native = best(rounds, lambda: list(map(_by_torchcodec, files, headers))) * each
    whole = best(rounds, lambda: [decode(path) for path in paths]) * each
    same = all(
        torch.equal(_by_torchcodec(data, header), _by_pillow(data))
        for data, header in zip(files, headers, strict=True)
    )
    print(
        f"{kind:<24} {sum(map(len, files)) // len(files):>8,} {checked:>8.0f} {pillow:>8.0f} "
        f"{native:>10.0f} {whole:>8.0f}   {'yes' if same else 'NO'}"
    )


Epoch = list[tuple[int, list[FrameTargets]]]


def an_epoch(table: FrameTable) -> Epoch:
    """First frame and targets of every video, in random order."""
    order = np.random.default_rng(0).permutation(len(table.lengths)).tolist()
    return [
        (
            int(table.video_offsets[video]),
            [table.frame(video, t) for t in range(int(table.lengths[video]))],
        )
        for video in order
    ]


def read_epoch(store: FrameStore, epoch: Epoch, size_hw: tuple[int, int] | None) -> None:
    """Every video once, resized to `size_hw` if it is not None."""
    for first, targets in epoch:
        frames_T3hw = store.read(first, targets)
        if size_hw:
            transforms.resize(frames_T3hw, list(size_hw), antialias=True)


def report_cache(root: Path, table: FrameTable, size_hw: tuple[int, int], rounds: int) -> None:
    store, frames = Files(root), len(table.names_F)
    each = 1e6 / frames
    folder = root / f"cache-{size_hw[0]}x{size_hw[1]}"
    identity = frames_identity(root, table)

    def opened():
        return open_cache(folder, store, table, size_hw, source=identity)

    made, cache = best(1, opened), opened()
    kept_hw = cache.stored_size(tuple(table.sizes_F2[0].tolist()))
    epoch = an_epoch(table)
    decoding = best(rounds, lambda: read_epoch(store, epoch, kept_hw))
    reading = best(rounds, lambda: [read_epoch(cache, epoch, None) for _ in range(20)]) / 20
    mapped = np.memmap(folder / DATA, np.uint8, "r").reshape(len(table.lengths), -1)
    order = np.tile(np.random.default_rng(0).permutation(len(mapped)), 20)
    mapping = best(rounds, lambda: [torch.from_numpy(mapped[i].copy()) for i in order]) / 20
    kept = (folder / DATA).stat().st_size
    whole = sum(path.stat().st_size for path in (root / FRAMES_FOLDER).glob("*/*.png"))
    print(
        f"{kept_hw[1]:>4} x {kept_hw[0]:<4} {made * each:>7.0f} {decoding * each:>9.0f} "
        f"{reading * each:>7.1f} {mapping * each:>7.1f} {whole / 1e6:>9.1f} {kept / 1e6:>9.1f} "
        f"{166_785 * kept / frames / 1e9:>9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the reading of frames.")
    parser.add_argument("--videos", type=int, default=10)
    parser.add_argument("--length", type=int, default=20, help="frames a video")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        table = make_root(root, arguments.videos, arguments.length, (270, 480))
        pngs = [root / FRAMES_FOLDER / name for name in table.names_F.tolist()]
        jpegs = []
        for path in pngs:
            with Image.open(path) as image:
                image.save(path.with_suffix(".jpg"), quality=90)
            jpegs.append(path.with_suffix(".jpg"))
        made = ensure(root / "synthetic", progress=False, train_videos=5, test_videos=5)
        small = sorted((made / FRAMES_FOLDER).glob("*/*.png"))[: len(pngs)]

        print(f"decoder of plain images: {decoder_name()}; load {os.getloadavg()[0]:.1f}")
        print(
            "microseconds a frame        bytes    check   Pillow torchcodec   decode   same pixels"
        )
        report_decoders("PNG 480 x 270", pngs, arguments.rounds)
        report_decoders("JPEG q90 480 x 270", jpegs, arguments.rounds)
        report_decoders("PNG 64 x 64, synthetic", small, arguments.rounds)
        print()
        print(f"microseconds a frame, of {len(pngs)} PNG frames of 480 x 270")
        print("kept size   making   decoded  cached     map    PNG MB  cache MB  train GB")
        for size_hw in ((64, 64), (256, 256), (270, 480)):
            report_cache(root, table, size_hw, arguments.rounds)
        print(f"frames_identity: {best(5, lambda: frames_identity(root, table)):.4f} s")


if __name__ == "__main__":
    main()
