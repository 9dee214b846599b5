"""The frames folder while it is being filled: what is there, what is bad, and the manifest."""

import os
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

from bload.errors import InputError
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import (
    MANIFEST,
    Manifest,
    frames_checksum,
    read_manifest,
    write_manifest,
)
from datasets.prepare.checksums import (
    CHECKSUMS,
    Checksum,
    add_checksums,
    read_checksums,
    write_checksums,
)
from datasets.prepare.decoder import MISSING, decoder_version
from datasets.prepare.downloads import VIDEOS_FOLDER
from datasets.prepare.encoding import Encoding, encoder_version
from datasets.prepare.extraction import Extracted, partial_folder
from datasets.prepare.inspection import inspect
from datasets.prepare.wanted import Wanted


class FramesFolder:
    """``ROOT/frames``, to be filled with the `wanted` frames in one encoding.

    Refuses frames of another encoding or of unknown origin. Clears what a killed run has left.
    `problems` says of each video that is not sound why; it lasts from run to run in the manifest.
    `altered` has the files of each video that are not as they were written: they count as missing.
    """

    def __init__(
        self,
        root: Path,
        wanted: Wanted,
        encoding: Encoding,
        *,
        read_all: bool = False,
        workers: int = 1,
        progress: bool = False,
    ) -> None:
        self.path = root / FRAMES_FOLDER
        self._videos = root / VIDEOS_FOLDER
        self._wanted = wanted
        self._decoder, self._encoder = decoder_version(), encoder_version()
        before = read_manifest(self.path)
        self._check_origin(before, encoding)
        self.clear_partials()
        self._written = read_checksums(self.path)
        self._sound: dict[str, Checksum] = {}
        self.altered: dict[str, list[str]] = {}
        for video in inspect(
            self.path,
            wanted,
            encoding.format,
            self._written,
            read_all=read_all,
            workers=workers,
            progress=progress,
        ):
            self._sound |= video.sound
            if video.altered:
                self.altered[video.video] = video.altered
        self.problems = {
            video: why
            for video, why in (before.problems if before else {}).items()
            if video in wanted and not why.startswith(MISSING)  # which is looked up anew
        }
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
            elif not self._has_all(frames):
                files = self.altered.get(video, [])
                altered = f" and {_altered(files)}" if files else ""
                self.problems[video] = f"{MISSING}{altered}; put it at {self._videos / video}"
        if todo:
            self.manifest = replace(
                self.manifest,
                decoder=_also(self.manifest.decoder, self._decoder),
                encoder=_also(self.manifest.encoder, self._encoder),
            )
        return todo

    def take(self, extracted: Extracted) -> None:
        """Move a video that is done from its partial folder to its place, problems first.

        One that gives fewer frames than are there already is left out.
        """
        video, partial = extracted.video, partial_folder(self.path, extracted.video)
        if extracted.problem is None:
            self.problems.pop(video, None)
        else:
            self.problems[video] = extracted.problem
            self.write_manifest()
        files = map(self.manifest.file_of, self._wanted[video])
        sound = [file for file in files if file in self._sound]
        if len(extracted.checksums) <= len(sound) and extracted.problem is not None:
            shutil.rmtree(partial)
            return
        add_checksums(self.path, extracted.checksums)
        if (self.path / video).exists():
            shutil.rmtree(self.path / video)
        os.replace(partial, self.path / video)
        for file in sound:
            del self._sound[file]
        self._sound |= extracted.checksums
        self.altered.pop(video, None)

    def write_checksums(self) -> None:
        """Write down what every file is to be, those that are lost or altered too."""
        files = {self.manifest.file_of(frame) for frame in chain(*self._wanted.values())}
        written = {file: self._written[file] for file in files & self._written.keys()}
        write_checksums(self.path, written | self._sound)

    def write_manifest(self) -> Manifest:
        """Write down how much is there now."""
        missing = [why for why in self.problems.values() if why.startswith(MISSING)]
        complete = [frames for frames in self._wanted.values() if self._has_all(frames)]
        size_of = {file: checksum.bytes for file, checksum in self._sound.items()}
        absent = sum(map(len, self._wanted.values())) - len(self._sound)
        self.manifest = replace(
            self.manifest,
            complete=not absent,
            videos=len(complete),
            frames=len(self._sound),
            bytes=sum(size_of.values()),
            frames_missing=absent,
            videos_missing=len(missing),
            videos_corrupt=len(self.problems) - len(missing),
            checksum=frames_checksum(size_of),
            problems=dict(sorted(self.problems.items())),
        )
        write_manifest(self.path, self.manifest)
        return self.manifest

    def _has_all(self, frames: list[str]) -> bool:
        return all(self.manifest.file_of(frame) in self._sound for frame in frames)

    def _check_origin(self, before: Manifest | None, encoding: Encoding) -> None:
        if before is None:
            videos = [path for path in self.path.iterdir() if path.name[0] != "."]
            videos = [path for path in videos if path.name != CHECKSUMS]
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
                "for what is there, remove the folder, or give another --root (its videos and "
                "annotations may be links)"
            )


def _altered(files: list[str]) -> str:
    """``2 of its frames are not as they were written (000089.png first)``."""
    number = "one of its frames is" if len(files) == 1 else f"{len(files)} of its frames are"
    return f"{number} not as written ({min(files).rpartition('/')[2]} first)"


def _also(before: str, now: str) -> str:
    """All versions that wrote frames, as one text."""
    return "; ".join(dict.fromkeys([*filter(None, before.split("; ")), now]))
