"""Time, disk and reading speed of each way to store frames.

    python -m experiments.benchmarks.prepare_speed

Videos of 24 s (720 frames, 30 of them annotated) pan over a photograph (matplotlib's sample) with a
camera's noise, are encoded by ffmpeg's defaults and prepared. Then Pillow reads every frame from
the system's cache into an array, as training does: the best of five rounds. All times are CPU time,
of ffmpeg too, so that other jobs disturb little.
"""

import contextlib
import io
import pickle
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import imageio_ffmpeg
import matplotlib
import numpy as np
from PIL import Image
from tabulate import tabulate

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE
from datasets.frames.manifest import Manifest
from datasets.prepare.extract import prepare

SIZES_HW = ((270, 480), (360, 480))
VIDEOS, FRAMES, EVERY = 2, 720, 24
FORMATS = (
    Manifest(),
    Manifest(short_side=256),
    Manifest("jpeg", 95),
    Manifest("jpeg", 90),
    Manifest("jpeg", 95, 256),
)


def make_video(path: Path, height: int, width: int, seed: int) -> None:
    """A noisy pan over a photograph."""
    photograph = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    pan = f"scale=1280:1500,crop={width}:{height}:200+mod(n\\,400):200+n"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-r", "30", "-loop", "1"]
    command += ["-i", str(photograph), "-vf", f"{pan},noise=alls=3:allf=t:all_seed={seed + 1}"]
    command += ["-frames:v", str(FRAMES), "-pix_fmt", "yuv420p", str(path)]
    subprocess.run(command, check=True)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that have ended below it."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def reading_ms(files: list[Path]) -> float:
    """Return the milliseconds per frame, from the file's bytes to an array."""
    began = cpu_seconds()
    for file in files:
        with Image.open(file) as image:
            np.array(image.convert("RGB"))
    return (cpu_seconds() - began) / len(files) * 1e3


def measure(root: Path, stored_as: Manifest) -> list:
    """Prepare the videos of `root`; return the figures."""
    shutil.rmtree(root / "frames", ignore_errors=True)
    began = cpu_seconds()
    with contextlib.redirect_stdout(io.StringIO()):
        manifest = prepare(root, stored_as, workers=1)
    seconds = (cpu_seconds() - began) / VIDEOS
    files = sorted((root / "frames").glob("*.mp4/*"))
    read = min(reading_ms(files) for _ in range(5))
    return [stored_as.stored_as(), seconds, manifest.bytes / manifest.frames / 1e3, read]


def main() -> None:
    for height, width in SIZES_HW:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "videos").mkdir()
            (root / "annotations").mkdir()
            names = [f"V{seed}.mp4" for seed in range(VIDEOS)]
            for seed, name in enumerate(names):
                make_video(root / "videos" / name, height, width, seed)
            numbers = range(EVERY, FRAMES + 1, EVERY)
            annotated: dict[str, list] = {
                f"{name}/{n:06d}.png": [] for name in names for n in numbers
            }
            for file in (OBJECTS_FILE, PERSONS_FILE):
                (root / "annotations" / file).write_bytes(pickle.dumps(annotated))
            rows = [measure(root, stored_as) for stored_as in FORMATS]
            headers = [f"{width}x{height}", "s per video", "kB a frame", "ms to read"]
            print(tabulate(rows, headers, floatfmt=",.2f"))


if __name__ == "__main__":
    main()
