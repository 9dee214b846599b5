"""The frames of a root as image files, decoded whenever they are read.

C channels, h x w pixels as stored, T frames; F frames of a table in V videos.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import torch

from bload.errors import InputError
from datasets.annotations.frame_names import check_frame_name
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER, MADE_BY
from datasets.annotations.targets import FrameTargets
from datasets.frames.decode import decode
from datasets.frames.manifest import file_of, read_manifest
from datasets.frames.sizes import stored_size


class FrameStore(Protocol):
    """Source of the frames of a split for data loaders, files or a cache; cheap to pickle."""

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) in which a frame annotated as `size_hw` is stored."""
        ...

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one video, all of one size, as uint8 RGB ``(T, 3, h, w)``.

        `first` is the number of the first of them in the split. Raises `InputError` naming a
        frame that cannot be read.
        """
        ...


class FrameFiles:
    """A `FrameStore` that decodes the files of the root at `root`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.folder = self.root / FRAMES_FOLDER
        self.manifest = read_manifest(self.folder)
        """How the frames were written; None in an official dump: native size, annotated names."""

    def path(self, name: str) -> Path:
        """Return where the frame `name` of the annotations lies."""
        check_frame_name(name)
        return self.folder / (file_of(name, self.manifest.format) if self.manifest else name)

    def check_all_there(self, names: Iterable[str]) -> None:
        """Raise `InputError` with the number of missing frames among `names`; read none."""
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
            "reports every frame; a synthetic root is made again under another dataset.root",
        )

    def identity(self, table: FrameTable) -> str:
        """Return a checksum that changes when the frames of `table` are written anew.

        It covers size and time of writing of the first frame file of each video (V queries of the
        file system), the format, size and checksum in ``frames/manifest.json``, and
        ``synthetic.json``. So other frames, another format or size, and videos extracted or copied
        again are noticed; a later frame of a video that was replaced by hand is not. A missing
        file counts as one of size 0.
        """
        digest, manifest = hashlib.sha256(), self.manifest
        if manifest:
            said = f"{manifest.format} {manifest.quality} {manifest.short_side}"
            digest.update(f"{said}\n{manifest.checksum}\n".encode())
        if (self.root / MADE_BY).exists():
            digest.update((self.root / MADE_BY).read_bytes())
        for name in table.names_F[table.video_offsets[:-1]].tolist():
            try:
                status = self.path(name).stat()
                digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
            except FileNotFoundError:
                digest.update(f"{name} 0\n".encode())
        return f"sha256:{digest.hexdigest()}"

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) of the file of a frame annotated as `size_hw`."""
        return stored_size(size_hw, self.manifest.short_side if self.manifest else None)

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Decode consecutive frames of one video, see `FrameStore`.

        Raises `InputError` naming the path for a frame that is missing, does not decode or has
        another size than annotated: a frame is never replaced by another.
        """
        size_hw = self.stored_size(targets[0].size_hw)
        frames_TChw = torch.empty((len(targets), 3, *size_hw), dtype=torch.uint8)
        for frame_Chw, target in zip(frames_TChw, targets, strict=True):
            path = self.path(target.name)
            pixels_hwC = torch.from_numpy(decode(path))
            height, width = pixels_hwC.shape[:2]
            if (height, width) != size_hw:
                raise InputError(
                    f"frame {path} is {width} x {height} pixels but its annotation asks for "
                    f"{size_hw[1]} x {size_hw[0]}; python -m datasets.verify lists all such "
                    "frames, python -m datasets.prepare writes them as annotated"
                )
            frame_Chw.copy_(pixels_hwC.permute(2, 0, 1))
        return frames_TChw
