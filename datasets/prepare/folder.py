"""The frames folder of a root while it is filled, and the annotated frames that are there."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames import manifest as record
from datasets.frames.manifest import Manifest

VIDEOS_FOLDER = "videos"
LOCK = f"{FRAMES_FOLDER}/.prepare.lock"
MISSING = "missing"

Wanted = Mapping[str, list[str]]
"""Video -> its annotated frames in order of time, as the annotations name them."""


class FramesFolder:
    """The frames folder of a root, looked at once; files are named ``VIDEO/FRAME`` below it.

    Attributes: `there`, the existing wanted files (none empty), with their sizes in bytes;
    `problems`, video -> why it is not sound.
    """

    def __init__(self, root: Path, wanted: Wanted, manifest: Manifest) -> None:
        self.path, self.videos = root / FRAMES_FOLDER, root / VIDEOS_FOLDER
        self.wanted, self.manifest = wanted, manifest
        why_of = manifest.problems.items()  # missing videos are looked up anew
        self.problems = {v: why for v, why in why_of if v in wanted and not why.startswith(MISSING)}
        self.files = [self.file_of(frame) for frame in chain(*wanted.values())]
        sizes = {file: self._size(file) for file in self.files}
        self.there = {file: size for file, size in sizes.items() if size}

    def _size(self, file: str) -> int:
        path = self.path / file
        return path.stat().st_size if path.exists() else 0

    def file_of(self, frame: str) -> str:
        """Return the file of an annotated frame."""
        return record.file_of(frame, self.manifest.format)

    def partial(self, video: str) -> Path:
        """Return the place of a video's frames until it is complete."""
        return self.path / f".{video}.partial"

    def clear(self) -> None:
        """Remove videos that were begun and not completed."""
        for folder in self.path.glob(".*.partial"):
            shutil.rmtree(folder)

    def to_do(self) -> list[list[str]]:
        """Return the frames of each video that is incomplete or not sound, if its file is there."""
        todo = []
        for video, frames in self.wanted.items():
            if (self.videos / video).is_file():
                if video in self.problems or not self._has_all(frames):
                    todo.append(frames)
            elif not self._has_all(frames):
                self.problems[video] = f"{MISSING}: put it at {self.videos / video}"
        return todo

    def take(self, video: str, written: dict[str, int], problem: str | None) -> None:
        """Move a finished video from its partial folder to its place.

        Args:
            written: files and their sizes. With a `problem` they are dropped, unless they are more
                than the files there.
        """
        self.problems.pop(video, None)
        there = self.there.keys() & map(self.file_of, self.wanted[video])
        if problem is not None:
            self.problems[video] = problem
            self.save()
            if len(written) <= len(there):
                shutil.rmtree(self.partial(video))
                return
        shutil.rmtree(self.path / video, ignore_errors=True)
        os.replace(self.partial(video), self.path / video)
        for file in there:
            del self.there[file]
        self.there |= written

    def save(self) -> Manifest:
        """Write the manifest: what is there now."""
        self.manifest = replace(
            self.manifest,
            videos=sum(map(self._has_all, self.wanted.values())),
            frames=len(self.there),
            bytes=sum(self.there.values()),
            frames_missing=len(self.files) - len(self.there),
            problems=dict(sorted(self.problems.items())),
        )
        record.write_manifest(self.path, self.manifest)
        return self.manifest

    def _has_all(self, frames: list[str]) -> bool:
        return all(self.file_of(frame) in self.there for frame in frames)
