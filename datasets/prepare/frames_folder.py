"""The frames folder while it is being filled: what is there, what is bad, and the manifest."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bload.errors import InputError
from datasets.annotations import FRAMES_FOLDER
from datasets.prepare.decoder import decoder_version
from datasets.prepare.encoding import Encoding, encoder_version
from datasets.prepare.extraction import Extracted, partial_folder
from datasets.prepare.manifest import (
    MANIFEST,
    Manifest,
    frames_checksum,
    read_manifest,
    write_manifest,
)
from datasets.prepare.wanted import Wanted, sizes_there

VIDEOS_FOLDER = "videos"
_LOCK = ".prepare.lock"


class FramesFolder:
    """``ROOT/frames``, to be filled with the `wanted` frames in one encoding.

    Refuses frames of another encoding or of unknown origin. Clears what a killed run has left.
    `problems` says of each video that is not sound why; it lasts from run to run in the manifest.
    """

    def __init__(self, root: Path, wanted: Wanted, encoding: Encoding) -> None:
        self.path = root / FRAMES_FOLDER
        self._videos = root / VIDEOS_FOLDER
        self._decoder, self._encoder = decoder_version(), encoder_version()
        self._wanted = wanted
        before = read_manifest(self.path)
        self._check_origin(before, encoding)
        self.clear_partials()
        self._size_of: dict[str, int] = {}
        for frames in wanted.values():
            self._size_of |= sizes_there(self.path, frames, encoding.format)
        told = before.problems if before else {}
        self.problems = {video: told[video] for video in told if video in wanted}
        self.manifest = Manifest(
            encoding.format,
            encoding.quality,
            encoding.short_side,
            before.decoder if before else "",
            before.encoder if before else "",
        )

    def clear_partials(self) -> None:
        """Remove what was begun and not completed."""
        for partial in self.path.glob(".*.partial"):
            shutil.rmtree(partial) if partial.is_dir() else partial.unlink()

    def to_do(self) -> list[list[str]]:
        """The frames of each video that is incomplete or not sound, whose file is there."""
        todo = []
        for video, frames in self._wanted.items():
            if video not in self.problems and self._has_all(frames):
                continue
            if (self._videos / video).exists():
                todo.append(frames)
            else:
                self.problems[video] = f"is missing; put it at {self._videos / video}"
        return todo

    def take(self, extracted: Extracted) -> None:
        """Move a video that is done from its partial folder to its place, problems first."""
        video, partial = extracted.video, partial_folder(self.path, extracted.video)
        if extracted.problem is None:
            self.problems.pop(video, None)
        else:
            self.problems[video] = extracted.problem
            self.write_manifest()
        if not extracted.size_of:
            shutil.rmtree(partial)
            return
        if (self.path / video).exists():
            shutil.rmtree(self.path / video)
        os.replace(partial, self.path / video)
        for frame in self._wanted[video]:
            self._size_of.pop(self.manifest.file_of(frame), None)
        self._size_of |= extracted.size_of
        self.manifest = replace(
            self.manifest,
            decoder=_also(self.manifest.decoder, self._decoder),
            encoder=_also(self.manifest.encoder, self._encoder),
        )

    def write_manifest(self) -> Manifest:
        """Write down what is there now."""
        missing = [why for why in self.problems.values() if why.startswith("is missing")]
        complete = [frames for frames in self._wanted.values() if self._has_all(frames)]
        absent = sum(map(len, self._wanted.values())) - len(self._size_of)
        self.manifest = replace(
            self.manifest,
            complete=not absent and not self.problems,
            videos=len(complete),
            frames=len(self._size_of),
            bytes=sum(self._size_of.values()),
            frames_missing=absent,
            videos_missing=len(missing),
            videos_corrupt=len(self.problems) - len(missing),
            checksum=frames_checksum(self._size_of),
            problems=dict(sorted(self.problems.items())),
        )
        write_manifest(self.path, self.manifest)
        return self.manifest

    def _has_all(self, frames: list[str]) -> bool:
        return all(self.manifest.file_of(frame) in self._size_of for frame in frames)

    def _check_origin(self, before: Manifest | None, encoding: Encoding) -> None:
        if before is None:
            videos = [path for path in self.path.iterdir() if not path.name.startswith(".")]
            if videos:
                raise InputError(
                    f"{self.path} holds {len(videos)} entries ({videos[0].name} is one) and no "
                    f"{MANIFEST}, so nobody knows how they were made; use them as they are, or "
                    "move them away"
                )
            return
        there = Encoding(before.format, before.quality, before.short_side)
        if there != encoding:
            raise InputError(
                f"{self.path} holds frames stored as {there}, and {encoding} was asked for; ask "
                "for what is there, or remove the folder"
            )


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Hold the lock of the frames folder, which the system frees when this process ends."""
    folder = root / FRAMES_FOLDER
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is writing {folder}; wait or stop it") from None
        except OSError:
            pass  # a file system without locks
        yield


def _also(before: str, now: str) -> str:
    """All versions that wrote frames, as one text."""
    return "; ".join(dict.fromkeys([*filter(None, before.split("; ")), now]))
