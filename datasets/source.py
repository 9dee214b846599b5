"""Videos with a scene graph on each frame, as a sequence source.

V videos, T frames, h x w pixels of a stored frame, H x W as read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from datasets.annotations.targets import FrameTargets, Video
from datasets.frames.files import FrameFiles

if TYPE_CHECKING:
    from datasets.frames.cache import FrameCache
    from datasets.synthetic.yardsticks import Yardsticks


class VideoSource:
    """One split of a data set: what training, evaluation, the measure and pictures read.

    Videos may differ in size. `read` gives frames as they are stored, zeros beside and below them,
    and `datasets.letterbox.Letterbox` resizes them on the device into a canvas, which the network
    sees. Boxes in the targets stay in native pixels.

    Args:
        root: the folder of the data set; frame ``VIDEO/NUMBER.png`` is in its ``frames/``.
        split: ``train``, ``validation``, ``test``, or ``final`` of synthetic videos.
        videos: at least one; classes and relations are those of `annotations.vocabulary`.
        canvas_hw: height and width of the canvas.
        cache: a folder for resized frames, filled now; None decodes files each time.

    Raises `InputError` if frames are missing, or differ in size within a video.

    Attributes: `videos`, with their targets; `names`, those of the videos; `lengths`, int64
    ``(V,)``, frames per video; `store`, their stored frames; `read_hw`, the size of all frames as
    read; `yardsticks`, the recall of ideal observers, of synthetic videos that are scored.
    """

    yardsticks: "Yardsticks | None" = None

    def __init__(
        self,
        root: Path | str,
        split: str,
        videos: Sequence[Video],
        canvas_hw: tuple[int, int],
        *,
        cache: Path | str | None = None,
    ) -> None:
        self.root, self.split, self.canvas_hw = Path(root), split, canvas_hw
        self.videos = tuple(videos)
        for video in videos:
            video.check()
        self.names = tuple(video.name for video in videos)
        self.lengths = np.array([len(video.frames) for video in videos], np.int64)
        self.files = FrameFiles(root)
        self.files.check_all_exist(frame.name for video in videos for frame in video.frames)
        self.store: FrameFiles | FrameCache = self.files
        sizes = {video.size_hw for video in videos}
        if cache is not None:
            from datasets.frames import cache as frame_cache  # rarely needed

            self.store = frame_cache.FrameCache(cache, self.files, self.videos, canvas_hw)
        heights, widths = zip(*map(self.store.stored_size, sizes), strict=True)
        self.read_hw = (max(heights), max(widths))

    def __len__(self) -> int:
        return len(self.names)

    def check_labelled(self) -> None:
        """Raise `InputError` if a frame has no relation, so that recall cannot count it."""
        for video in self.videos:
            for frame in video.frames:
                frame.check_labelled()

    def read(
        self, sequence: int, first: int, length: int
    ) -> tuple[torch.Tensor, tuple[FrameTargets, ...]]:
        """Return frames, uint8 ``(T, 3, H, W)``, in `read_hw`, zeros beside and below, and targets.

        Raises `InputError` for an image that cannot be read.
        """
        targets = self.videos[sequence].frames[first : first + length]
        frames_TChw = self.store.read(sequence, first, targets)
        (height, width), (read_height, read_width) = frames_TChw.shape[2:], self.read_hw
        if (height, width) != self.read_hw:  # padding by nothing would copy
            frames_TChw = F.pad(frames_TChw, (0, read_width - width, 0, read_height - height))
        return frames_TChw, targets
