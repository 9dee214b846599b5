"""Decoding of videos, all in this file.

It runs ffmpeg's own program, not its libraries, since the official frames are the output of
``ffmpeg -i VIDEO %06d.png``: frames repeated or dropped for a constant rate, pictures turned as the
file says, colours converted by swscale's defaults. The command here differs only in its container,
PPM pictures through a pipe. The program comes with imageio-ffmpeg (the variable IMAGEIO_FFMPEG_EXE
names another one).
"""

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

import imageio_ffmpeg
from PIL import Image

from bload import InputError

_PPM = re.compile(rb"P6\n(\d+) (\d+)\n255\n")


class VideoError(Exception):
    """Problem of a video: its kind, a colon, the details."""


def decoder_version() -> str:
    """Return program, version and origin, like ``ffmpeg 7.1 (imageio-ffmpeg 0.6.0)``."""
    try:
        program = imageio_ffmpeg.get_ffmpeg_version()
    except (RuntimeError, OSError, subprocess.SubprocessError, IndexError) as error:
        raise InputError(f"no ffmpeg runs ({error}); set IMAGEIO_FFMPEG_EXE to one") from error
    return f"ffmpeg {program} (imageio-ffmpeg {imageio_ffmpeg.__version__})"


class Decoder:
    """Decodes videos in any number of threads, until `stop` ends all of them."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def stop(self) -> None:
        """End every ffmpeg that runs, and those that start later: their videos look cut off."""
        self._stopped = True
        for process in list(self._running):
            process.kill()

    def decode(self, video: Path, numbers: Collection[int]) -> Iterator[tuple[int, Image.Image]]:
        """Yield the frames `numbers` of a video, counted from 1, in order, with their numbers.

        Ends after the last of them. Raises `VideoError` if it is no video; or, after the frames
        that could be decoded, if it ends too soon or the decoder complained.
        """
        command = _command(video, max(numbers))
        decoded, pipe, devnull = 0, subprocess.PIPE, subprocess.DEVNULL
        with (
            tempfile.TemporaryFile() as log,
            subprocess.Popen(  # in a session of its own: Ctrl-C would make videos look cut off
                command, stdin=devnull, stdout=pipe, stderr=log, start_new_session=True
            ) as process,
        ):
            self._running.add(process)
            stream = process.stdout
            assert stream is not None
            try:
                while not self._stopped and (header := _PPM.fullmatch(b"".join(islice(stream, 3)))):
                    width, height = map(int, header.groups())
                    pixels = stream.read(3 * width * height)
                    if len(pixels) < 3 * width * height:
                        break
                    decoded += 1
                    if decoded in numbers:
                        yield decoded, Image.frombytes("RGB", (width, height), pixels)
                if not self._stopped:
                    stream.close()
                    process.wait()
            finally:
                process.kill()
                self._running.discard(process)
            log.seek(0)
            _judge(numbers, decoded, log.read().decode(errors="replace"))


def _command(video: Path, frames: int) -> list[str]:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-threads", "1"]
    command += ["-protocol_whitelist", "file", "-i", f"file:{video}", "-frames:v", str(frames)]
    return [*command, "-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "pipe:"]


def _judge(numbers: Collection[int], decoded: int, log: str) -> None:
    """Raise `VideoError` unless all `numbers` were decoded and the decoder said nothing."""
    lines = (re.sub(r"\[[^\]]*\] ?", "", line).strip() for line in log.splitlines())
    complaint = next((line.rstrip(".")[:120] for line in lines if line), "")  # without addresses
    missing_numbers = sorted(number for number in numbers if number > decoded)
    if not decoded:
        raise VideoError(f"not decodable: {complaint}")
    if missing_numbers:
        raise VideoError(
            f"too short: ends at frame {decoded}, but {len(missing_numbers)} annotated frames come "
            f"after it, {missing_numbers[0]} first; {complaint}"
        )
    if complaint:
        raise VideoError(f"damaged: {complaint}; all annotated frames were kept as decoded")
