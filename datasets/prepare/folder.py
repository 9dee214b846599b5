"""The frames folder of a root while it is filled, and the annotated frames that exist in it."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import Manifest, file_name, write_manifest

VIDEOS_FOLDER = "videos"
LOCK = f"{FRAMES_FOLDER}/.prepare.lock"
MISSING = "missing"


class FramesFolder:
    """The frames folder of a root, looked at once; files are named ``VIDEO/FRAME`` below it.

    Args:
        annotated: video -> its annotated frames.
        manifest: how frames are stored, and the problems of earlier runs.

    Attributes: `files`, video -> the files of its annotated frames; `sizes`, existing file, none
    empty, -> bytes; `problems`, video -> its problem.
    """

    def __init__(self, root: Path, annotated: Mapping[str, list[str]], manifest: Manifest) -> None:
        self.path, self.videos = root / FRAMES_FOLDER, root / VIDEOS_FOLDER
        self.manifest = manifest
        self.files = {
            video: [file_name(frame, manifest.format) for frame in frames]
            for video, frames in annotated.items()
        }
        self.problems = {
            video: problem
            for video, problem in manifest.problems.items()
            if video in annotated and not problem.startswith(MISSING)  # looked up anew
        }
        paths = {file: self.path / file for files in self.files.values() for file in files}
        sizes = {file: path.stat().st_size for file, path in paths.items() if path.exists()}
        self.sizes = {file: size for file, size in sizes.items() if size}

    def partial_folder(self, video: str) -> Path:
        """Return the place of a video's frames until it is complete."""
        return self.path / f".{video}.partial"

    def clear(self) -> None:
        """Remove videos that were begun and not completed."""
        for folder in self.path.glob(".*.partial"):
            shutil.rmtree(folder)

    def is_complete(self, video: str) -> bool:
        """Return True if all annotated frames of a video exist."""
        return self.sizes.keys() >= {*self.files[video]}

    def pending_videos(self) -> list[str]:
        """Return the videos, incomplete or with a problem, that can be decoded."""
        pending = []
        for video in self.files:
            if (self.videos / video).is_file():
                if video in self.problems or not self.is_complete(video):
                    pending.append(video)
            elif not self.is_complete(video):
                self.problems[video] = f"{MISSING}: put it at {self.videos / video}"
        return pending

    def finish_video(self, video: str, written: dict[str, int], problem: str | None) -> None:
        """Move a finished video from its partial folder to its place.

        Args:
            written: files and their sizes. With a `problem` they are dropped, unless they are more
                than the files that exist.
        """
        self.problems.pop(video, None)
        existing = self.sizes.keys() & self.files[video]
        if problem is not None:
            self.problems[video] = problem
            self.save()
            if len(written) <= len(existing):
                shutil.rmtree(self.partial_folder(video))
                return
        shutil.rmtree(self.path / video, ignore_errors=True)
        os.replace(self.partial_folder(video), self.path / video)
        for file in existing:
            del self.sizes[file]
        self.sizes |= written

    def save(self) -> Manifest:
        """Write the manifest of the files that exist now."""
        self.manifest = replace(
            self.manifest,
            videos=sum(map(self.is_complete, self.files)),
            frames=len(self.sizes),
            bytes=sum(self.sizes.values()),
            frames_missing=sum(map(len, self.files.values())) - len(self.sizes),
            problems=dict(sorted(self.problems.items())),
        )
        write_manifest(self.path, self.manifest)
        return self.manifest
