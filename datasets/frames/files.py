"""The frames of a root as image files.

C channels, h x w pixels as stored, T frames.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from bload.errors import InputError
from datasets.annotations.frame_names import check_frame_name
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER
from datasets.annotations.targets import FrameTargets
from datasets.frames.decode import decode
from datasets.frames.manifest import read_manifest
from datasets.frames.stored_size import stored_size


class FrameFiles:
    """A frame store that decodes the files of the root at `root` whenever they are read."""

    def __init__(self, root: Path | str) -> None:
        self.folder = Path(root) / FRAMES_FOLDER
        self.manifest = read_manifest(self.folder)
        """What wrote the frames; None in an official dump: native size, names as annotated."""

    def path(self, name: str) -> Path:
        """Where the frame `name` of the annotations lies."""
        check_frame_name(name)
        return self.folder / (self.manifest.file_of(name) if self.manifest else name)

    def check_all_there(self, names: Iterable[str]) -> None:
        """Raise `InputError` naming how many of the frames `names` are missing; reads none."""
        there: dict[Path, set[str]] = {}
        problems = Problems()
        for path in map(self.path, names):
            if path.parent not in there:
                exists = path.parent.is_dir()
                there[path.parent] = set(os.listdir(path.parent)) if exists else set()
            if path.name not in there[path.parent]:
                problems.add("missing frames", str(path.relative_to(self.folder)))
        problems.refuse(
            self.folder,
            "python -m datasets.prepare makes them from the videos, python -m datasets.verify "
            "tells of every frame; a synthetic root is made again under another dataset.root",
        )

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        return stored_size(size_hw, self.manifest.short_side if self.manifest else None)

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Consecutive frames of one video, decoded, see `datasets.frames.store.FrameStore`.

        Raises `InputError` naming the path for a frame that is missing, does not decode or has
        another size than annotated: a frame is never replaced by another.
        """
        size_hw = self.stored_size(targets[0].size_hw)
        frames_TCHW = torch.empty((len(targets), 3, *size_hw), dtype=torch.uint8)
        for index, target in enumerate(targets):
            path = self.path(target.name)
            frame_CHW = decode(path)
            if frame_CHW.shape[1:] != size_hw:
                height, width = frame_CHW.shape[1:]
                raise InputError(
                    f"frame {path} is {width} x {height} pixels but its annotation asks for "
                    f"{size_hw[1]} x {size_hw[0]}; python -m datasets.verify lists all such "
                    "frames, python -m datasets.prepare writes them as annotated"
                )
            frames_TCHW[index] = frame_CHW
        return frames_TCHW
