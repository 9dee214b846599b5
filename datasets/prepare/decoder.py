"""Decoding videos: the only place that does.

ffmpeg's own program runs, not its libraries, for the official frames are what
``ffmpeg -i VIDEO %06d.png`` writes: frames repeated or dropped so that the rate is constant,
pictures turned as the file says, colours as swscale converts them by default. The command here is
that one with another container: PPM pictures through a pipe. The tests compare both, pixel by
pixel. The program comes with imageio-ffmpeg (the variable IMAGEIO_FFMPEG_EXE names another one).
"""

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import imageio_ffmpeg
from PIL import Image

from bload.errors import InputError

MISSING, DAMAGED = "is missing", "is damaged"
"""How the reasons begin of a video that is not there, and of one that gave all its frames."""


class VideoError(Exception):
    """Why a video is not sound, in a few words for the list at the end."""


def decoder_version() -> str:
    """Program, version and where it is from, like ``ffmpeg 7.1 (imageio-ffmpeg 0.6.0)``."""
    try:
        found = imageio_ffmpeg.get_ffmpeg_version()
    except (RuntimeError, OSError, subprocess.SubprocessError, IndexError) as error:
        raise InputError(
            f"imageio-ffmpeg {version('imageio-ffmpeg')} has no ffmpeg that runs here ({error}); "
            "set IMAGEIO_FFMPEG_EXE to one"
        ) from error
    return f"ffmpeg {found} (imageio-ffmpeg {version('imageio-ffmpeg')})"


def decode(video: Path, numbers: Collection[int]) -> Iterator[tuple[int, Image.Image]]:
    """The frames `numbers` of a video, counted from 1, in order of time, with their numbers.

    Stops after the last of them. Raises `VideoError` if the video is missing, empty or no video;
    after the frames that could be had also if it ends too soon or the decoder complained.
    """
    if not video.exists():
        raise VideoError(f"{MISSING}; put it at {video}")
    if not video.stat().st_size:
        raise VideoError("is empty (0 bytes)")
    last = max(1, *numbers)
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", "-loglevel", "error", "-threads", "1"]
    command += ["-protocol_whitelist", "file", "-i", f"file:{video}", "-frames:v", str(last)]
    command += ["-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "pipe:"]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            bufsize=1 << 20,
            start_new_session=True,  # Ctrl-C is not for it: what is cut off would look corrupt
        )
        assert process.stdout is not None
        decoded = 0
        try:
            while (header := _header(process.stdout)) is not None:
                width, height = header
                pixels = process.stdout.read(3 * width * height)
                if len(pixels) < 3 * width * height:
                    break
                decoded += 1
                if decoded in numbers:
                    yield decoded, Image.frombytes("RGB", (width, height), pixels)
            process.stdout.close()
            process.wait()
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        complaints.seek(0)
        _judge(numbers, decoded, _complaint(complaints.read().decode(errors="replace")))


def _header(stream: BinaryIO) -> tuple[int, int] | None:
    """Width and height of the next PPM picture, or None at the end of the stream."""
    lines = [stream.readline() for _ in range(3)]
    if lines[0] != b"P6\n" or lines[2] != b"255\n":
        return None
    width, height = map(int, lines[1].split())
    return width, height


def _judge(numbers: Collection[int], decoded: int, complaint: str) -> None:
    """Raise `VideoError` unless all `numbers` are among the decoded frames and nothing was said."""
    why = f" ({complaint})" if complaint else ""
    if not decoded:
        raise VideoError(f"is not a video that decodes{why}")
    beyond = sorted(number for number in numbers if number > decoded)
    if beyond:
        raise VideoError(
            f"ends at frame {decoded}, but {len(beyond)} annotated frames come after it, "
            f"{beyond[0]} first{why}"
        )
    if min(numbers) < 1:
        raise VideoError(f"is annotated at frame {min(numbers)}, but the first frame is 1")
    if complaint:
        raise VideoError(f"{DAMAGED}{why}; all annotated frames were kept as the decoder made them")


def _complaint(text: str) -> str:
    """The first thing the decoder said, without addresses in memory and names of its parts."""
    lines = [re.sub(r"\[[^\]]*\] ?", "", line).strip() for line in text.splitlines()]
    return next(filter(None, lines), "").rstrip(".")[:120]
