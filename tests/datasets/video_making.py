"""Encoding short videos with the ffmpeg of imageio-ffmpeg, and the official frames of a video.

H x W pixels.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from PIL import Image


def ffmpeg(*arguments: str | Path, given: bytes = b"") -> None:
    """Run ffmpeg; an error of it is an error of the test."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *map(str, arguments)]
    subprocess.run(command, input=given, check=True)


def moving_pattern(video: Path, *options: str, frames: int = 40, size: str = "96x64") -> Path:
    """A video of `frames` pictures that all differ, 30 a second; `options` for the output."""
    source = f"testsrc2=size={size}:rate=30"
    ffmpeg(
        *("-f", "lavfi", "-i", source, "-frames:v", str(frames), "-pix_fmt", "yuv420p"),
        *(*options, video),
    )
    return video


def encode(video: Path, frames: Iterable[np.ndarray]) -> Path:
    """A video of uint8 ``(H, W, 3)`` pictures of one size, 30 a second, nearly without loss."""
    frames = list(frames)
    height, width, _ = frames[0].shape
    source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", "30")
    target = ("-pix_fmt", "yuv420p", "-crf", "4", "-preset", "ultrafast")
    pixels = b"".join(frame.tobytes() for frame in frames)
    ffmpeg(*source, "-i", "pipe:", *target, video, given=pixels)
    return video


def official_frames(video: Path, folder: Path) -> dict[int, np.ndarray]:
    """Number -> picture, as ``ffmpeg -i VIDEO %06d.png`` writes them into `folder`."""
    folder.mkdir(parents=True)
    ffmpeg("-i", video, folder / "%06d.png")
    return {int(path.stem): np.array(Image.open(path)) for path in sorted(folder.iterdir())}
