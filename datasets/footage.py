"""A video to be looked at: a file, or a folder of frames; one picture at a time.

h x w pixels, C channels.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bload.errors import InputError
from datasets.frames.decode import decode
from datasets.prepare.decoder import Decoder, VideoError, decoder_version, frame_rate

SUFFIXES = (".png", ".jpg", ".jpeg")
FOLDER_RATE = 10.0
"""Pictures a second of a folder, which says none."""

Pictures = Iterator[tuple[int, np.ndarray]]
"""Numbers of frames in their video, rising, and their pixels, RGB uint8 ``(h, w, 3)``."""


class VideoFile:
    """A file that ffmpeg reads, `fps` pictures a second of it; None: all. Turned as it says.

    Raises `InputError` if it is no video.

    Attributes: `name`; `rate`, of the pictures in a second; `damage`, of the file, in words, once
    they have been read.
    """

    def __init__(self, path: Path, fps: float | None = None) -> None:
        decoder_version()  # that there is one
        try:
            native = frame_rate(path.absolute())
        except VideoError as error:
            raise InputError(
                f"{path} cannot be read as a video ({error}); give a file that ffmpeg plays, or a "
                "folder of frames"
            ) from error
        self.name, self._path = path.name, path.absolute()
        self._step = max(1.0, native / fps) if fps else 1.0
        self.rate, self.damage = native / self._step, ""

    def __iter__(self) -> Pictures:
        """Yield pictures, numbered from 1 as the frames of the file are.

        A file that is damaged ends with its last frame that can be had.
        """
        looked_at = 0
        try:
            for number, image in Decoder().decode(self._path):
                if number - 1 >= looked_at * self._step:
                    looked_at += 1
                    yield number, np.asarray(image)
        except VideoError as error:
            if not looked_at:
                raise InputError(f"{self._path} has no frame that can be read ({error})") from error
            self.damage = str(error)


class FrameFolder:
    """All PNG and JPEG files of a folder, in natural order (2 before 10), `fps` of them a second.

    Their numbers are those at the end of their names, where these rise; else they are counted.
    Raises `InputError` if there is none.

    Attributes: as of `VideoFile`.
    """

    def __init__(self, path: Path, fps: float | None = None) -> None:
        found = (file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        self._files = sorted(found, key=lambda file: _natural(file.name))
        if not self._files:
            raise InputError(
                f"{path} holds no frame ({', '.join(SUFFIXES)}); give a video or a folder of frames"
            )
        self.name, self.rate, self.damage = path.absolute().name, fps or FOLDER_RATE, ""
        ends = [re.search(r"\d+$", file.stem) for file in self._files]
        numbers = [int(end[0]) for end in ends if end]
        rise = len(numbers) == len(ends) and all(np.diff(numbers) > 0)
        self._numbers = numbers if rise else range(1, len(ends) + 1)

    def __iter__(self) -> Pictures:
        """Yield pictures; raises `InputError` for one that is damaged or of another size."""
        first = None
        for number, file in zip(self._numbers, self._files, strict=True):
            picture_hwC = decode(file)
            first = first or picture_hwC.shape
            if picture_hwC.shape != first:
                (height, width, _), (high, wide, _) = picture_hwC.shape, first
                raise InputError(
                    f"frame {file} is {width} x {height} pixels and those before it are "
                    f"{wide} x {high}; give frames of one size, a folder for each"
                )
            yield number, picture_hwC


def open_footage(path: Path, fps: float | None = None) -> VideoFile | FrameFolder:
    """Open a video file or a folder of frames; raises `InputError` if it is neither."""
    if not path.exists():
        raise InputError(f"there is no {path}; give a video or a folder of frames")
    return FrameFolder(path, fps) if path.is_dir() else VideoFile(path, fps)


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
