"""Frames resized once and kept in a file per video, so that later epochs decode nothing.

    FOLDER/001YG.mp4-KEY.npy    the frames of a video, uint8 (T, 3, h, w)

A frame is kept in the largest size of its shape that fits into the requested size, or in the size
of its file if that is smaller. Bars of a letterbox are not kept. The key is a checksum of what the
file was made from, so frames of other files, names or sizes are never read: they get files anew.

T frames, h x w pixels.
"""

import hashlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from datasets.annotations.targets import FrameTargets, Video
from datasets.files import lock_folder, reading, write_whole
from datasets.frames.files import FrameFiles, fit


class FrameCache:
    """The frames of the videos of a split, read as `FrameFiles` reads them; filled when opened.

    Concurrent processes wait for the one that fills it.

    Args:
        files: source of the frames that are not there.
        size_hw: height and width into which every frame is fitted.

    Raises:
        InputError: a frame cannot be read.
    """

    def __init__(
        self,
        folder: Path | str,
        files: FrameFiles,
        videos: Sequence[Video],
        size_hw: tuple[int, int],
    ) -> None:
        self.folder, self.files, self.size_hw = Path(folder), files, size_hw
        self.paths = [self.folder / f"{video.name}-{self._key(video)}.npy" for video in videos]
        if all(path.exists() for path in self.paths):
            return  # also if nobody may write there
        with lock_folder(self.folder, lock=self.folder / ".lock"), ThreadPoolExecutor() as pool:
            self.folder.mkdir(parents=True, exist_ok=True)
            pairs = zip(self.paths, videos, strict=True)
            missing = [(path, video) for path, video in pairs if not path.exists()]
            jobs = pool.map(lambda pair: self._write(*pair), missing)
            for _ in tqdm(jobs, "caching", len(missing), unit="video", disable=not missing or None):
                pass

    def stored_size(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        """Return the size (h, w) in which frames annotated as `size_hw` are kept."""
        return min(fit(size_hw, self.size_hw), size_hw, key=math.prod)

    def read(self, video: int, first: int, targets: Sequence[FrameTargets]) -> torch.Tensor:
        """Read consecutive frames of a video as uint8 RGB ``(T, 3, h, w)``."""
        path = self.paths[video]
        with reading(path, "remove it and it is made again"):
            frames_T3hw = np.load(path, mmap_mode="r")[first : first + len(targets)]
            return torch.from_numpy(np.array(frames_T3hw))

    def _key(self, video: Video) -> str:
        """Return a checksum of the frames' names, their size, and the files.

        Of the files only the first is looked at, its size and its time. So a video extracted or
        copied again is noticed, but not a later frame that was replaced by hand.
        """
        names = [frame.name for frame in video.frames]
        status = (self.files.folder / names[0]).stat()
        made_from = (names, self.stored_size(video.size_hw), status.st_size, status.st_mtime_ns)
        return hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]

    def _write(self, path: Path, video: Video) -> None:
        frames_T3hw, kept_hw = self.files.read(0, 0, video.frames), self.stored_size(video.size_hw)
        if frames_T3hw.shape[2:] != kept_hw:
            frames_T3hw = transforms.resize(frames_T3hw, [*kept_hw], antialias=True)
        write_whole(path, lambda file: np.save(file, frames_T3hw.numpy()))
