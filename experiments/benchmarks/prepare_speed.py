"""Time, disk and reading speed of each way to store frames.

    python -m experiments.benchmarks.prepare_speed [--videos 2]

Videos of 24 s (720 frames, 30 of them annotated) pan over a photograph (matplotlib's sample) with a
camera's noise, are encoded by ffmpeg's defaults and prepared. Then Pillow reads every frame from
the system's cache into an array, as training does: five rounds over all formats in turn, the best
one is shown. All times are CPU time, of ffmpeg too, so that other jobs disturb little.
"""

import argparse
import contextlib
import io
import pickle
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import imageio_ffmpeg
import matplotlib
import numpy as np
from PIL import Image

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE
from datasets.frames.manifest import Manifest
from datasets.prepare.extract import prepare

SIZES_HW = ((270, 480), (360, 480))
FRAMES, EVERY = 720, 24
FORMATS = (
    Manifest(),
    Manifest(short_side=256),
    Manifest("jpeg", 95),
    Manifest("jpeg", 90),
    Manifest("jpeg", 95, 256),
)


def make_video(path: Path, height: int, width: int, seed: int) -> None:
    """A noisy pan over a photograph."""
    rng = np.random.default_rng(seed)
    photograph = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    picture_HW3 = np.array(Image.open(photograph).convert("RGB").resize((1280, 1500))).astype(int)
    noise_HW3 = rng.normal(0, 4, (height + 64, width + 64, 3)).astype(int)
    pixels = io.BytesIO()
    for index in range(FRAMES):
        top, left = 200 + index, 200 + index % 400
        dy, dx = rng.integers(0, 64, 2)
        frame_HW3 = picture_HW3[top : top + height, left : left + width]
        frame_HW3 = frame_HW3 + noise_HW3[dy : dy + height, dx : dx + width]
        pixels.write(frame_HW3.clip(0, 255).astype(np.uint8).tobytes())
    raw = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", "30")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *raw, "-i", "pipe:"]
    command += ["-pix_fmt", "yuv420p", str(path)]
    subprocess.run(command, input=pixels.getvalue(), check=True)


def reading_ms(files: list[Path]) -> float:
    """Return the milliseconds per frame, from the file's bytes to an array."""
    began = time.process_time()
    for file in files:
        with Image.open(file) as image:
            np.array(image.convert("RGB"))
    return (time.process_time() - began) / len(files) * 1e3


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that have ended below it."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=2, help="per size")
    args = parser.parse_args()
    print("size     stored as                  s per video  kB a frame  ms to read")
    for height, width in SIZES_HW:
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder) / "first"
            (first / "videos").mkdir(parents=True)
            (first / "annotations").mkdir()
            names = [f"V{index}.mp4" for index in range(args.videos)]
            for seed, name in enumerate(names):
                make_video(first / "videos" / name, height, width, seed)
            numbers = range(EVERY, FRAMES + 1, EVERY)
            entries_of: dict[str, list] = {
                f"{name}/{number:06d}.png": [] for name in names for number in numbers
            }
            for file in (OBJECTS_FILE, PERSONS_FILE):
                (first / "annotations" / file).write_bytes(pickle.dumps(entries_of))
            rows, files_of = [], []
            for index, stored_as in enumerate(FORMATS):
                root = Path(folder) / str(index)
                root.mkdir()
                for part in ("videos", "annotations"):
                    (root / part).symlink_to(first / part)
                began = cpu_seconds()
                with contextlib.redirect_stdout(io.StringIO()):
                    manifest = prepare(root, stored_as, workers=1)
                seconds = (cpu_seconds() - began) / args.videos
                size = manifest.bytes / manifest.frames / 1e3
                rows.append(
                    f"{width}x{height}  {stored_as.stored_as():27} {seconds:10.2f} {size:11.1f}"
                )
                files_of.append(sorted((root / "frames").glob("*.mp4/*")))
            rounds = [[reading_ms(files) for files in files_of] for _ in range(5)]
            for row, times in zip(rows, zip(*rounds, strict=True), strict=True):
                print(f"{row} {min(times):11.2f}")


if __name__ == "__main__":
    main()
