"""The frames of a root as image files, decoded whenever they are read.

C channels, h x w pixels as stored, T frames; F frames of a table in V videos.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from bload import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER, KNOBS_FILE
from datasets.annotations.targets import FrameTargets
from datasets.files import plain_file
from datasets.frames.decode import decode
from datasets.frames.manifest import file_name, read_manifest
from datasets.frames.sizes import stored_size


class FrameFiles:
    """The frames of the root at `root`, for data loaders; cheap to pickle, as `FrameCache` is."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.folder = self.root / FRAMES_FOLDER
        self.manifest = read_manifest(self.folder)
        """None in an official dump: native size, annotated names."""

    def path(self, name: str) -> Path:
        """Return the file of the frame that the annotations call `name`."""
        return self.folder / (file_name(name, self.manifest.format) if self.manifest else name)

    def check_all_exist(self, names: Iterable[str]) -> None:
        """Raise `InputError` with the number of missing frames among `names`; read none."""
        existing = {path.name: set(os.listdir(path)) for path in self.folder.glob("*/")}
        problems = Problems()
        for path in map(self.path, names):
            if path.name not in existing.get(path.parent.name, ()):
                problems.add("missing frames", str(path.relative_to(self.folder)))
        for video, files in existing.items():
            if files & {"000000.png", "000000.jpg"}:
                problems.add("videos whose frames are numbered from 0, not from 1", video)
        problems.raise_if_any(
            self.folder,
            "python -m datasets.prepare makes them from the videos, with --check it reports every "
            "frame; a synthetic root is made again under another dataset.root",
        )

    def identity(self, table: FrameTable) -> str:
        """Return a checksum that changes when the frames of `table` are written anew.

        It covers size and modification time of each video's first frame file (V queries of the file
        system), the format of the files, and ``synthetic.json``. So it notices other frames,
        another format or size, and videos extracted or copied again, but not a later frame of a
        video that was replaced by hand. A missing file counts as one of size 0.
        """
        digest = hashlib.sha256(self.manifest.describe().encode() if self.manifest else b"")
        recipe = plain_file(self.root / KNOBS_FILE)
        digest.update(recipe.read_bytes() if recipe.exists() else b"")
        for name in table.names_F[table.video_offsets[:-1]].tolist():
            path = self.path(name)
            status = path.stat() if path.exists() else None
            file_state = f"{status.st_size} {status.st_mtime_ns}" if status else "0"
            digest.update(f"{name} {file_state}\n".encode())
        return f"sha256:{digest.hexdigest()}"

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) of the file of a frame annotated as `size_hw`."""
        return stored_size(size_hw, self.manifest.short_side if self.manifest else None)

    def read(self, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of one video, all of one size, as uint8 RGB ``(T, 3, h, w)``.

        `first` is the number of the first of them in the split. Raises `InputError` naming the path
        for a frame that is missing, does not decode or has another size than annotated: a frame is
        never replaced by another.
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
                    f"{size_hw[1]} x {size_hw[0]}; python -m datasets.prepare --check lists all "
                    "such frames, and without --check it writes the videos anew whose folders you "
                    "have removed"
                )
            frame_Chw.copy_(pixels_hwC.permute(2, 0, 1))
        return frames_TChw
