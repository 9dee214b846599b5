"""Writing a video: pictures in, an mp4 file out.

h x w pixels, C channels.
"""

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from bload.errors import InputError
from datasets.prepare.decoder import decoder_version


class FilmWriter:
    """Encodes pictures of one size, that of the first one, with ffmpeg's libx264.

    A context: the file is at `path` once it ends well; after an exception `path` is as before.
    Raises `InputError` if there is no ffmpeg.

    Args:
        path: ends in .mp4.
        rate: pictures a second.
    """

    def __init__(self, path: Path, rate: float) -> None:
        decoder_version()  # that there is a program
        self._path, self._rate = path, rate
        self._part = path.with_name(f".{path.name}.part")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed on leaving
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "FilmWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
                self._part.replace(self._path)
        finally:
            if self._process:
                self._process.kill()
                self._process.wait()
            self._part.unlink(missing_ok=True)
            self._log.close()

    def write(self, picture_hwC: np.ndarray) -> None:
        """Add a picture, RGB uint8 ``(h, w, 3)`` of even sides.

        Raises `InputError` if ffmpeg does not take it.
        """
        if self._process is None:
            self._process = self._started(*picture_hwC.shape[:2])
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(np.ascontiguousarray(picture_hwC).data)
        except BrokenPipeError:
            self._finish()

    def _started(self, height: int, width: int) -> subprocess.Popen:
        source = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {self._rate:.6g} -i pipe:"
        target = "-c:v libx264 -pix_fmt yuv420p -crf 18 -movflags +faststart -f mp4"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *source.split()]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(  # in a session of its own: Ctrl-C is for this process
            [*command, *target.split(), f"file:{self._part.absolute()}"],
            stdin=pipe, stdout=none, stderr=self._log, start_new_session=True,
        )  # fmt: skip

    def _finish(self) -> None:
        """Let ffmpeg end; raises `InputError` with what it said if that is in error."""
        if self._process and self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            if self._process.wait():
                self._log.seek(0)
                said = self._log.read().decode(errors="replace").strip().splitlines()
                raise InputError(
                    f"{self._path} cannot be written ({said[0] if said else 'ffmpeg ended'}); make "
                    "room on the disk, or set IMAGEIO_FFMPEG_EXE to an ffmpeg with libx264"
                )
