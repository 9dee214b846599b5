"""Action Genome as a sequence source: lengths, and frames with targets of any run of a video."""

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import read_annotations
from datasets.annotations.targets import FrameTargets
from datasets.frames.cache import open_cache
from datasets.frames.files import FrameFiles, FrameStore


class ActionGenome:
    """One split of an Action Genome root, real or synthetic.

    Videos have several sizes. `read` gives frames as they are stored, in the top left corner of a
    canvas that all have in common; `datasets.letterbox.Letterbox` resizes them on the device to
    `image_size_hw`. Boxes in the targets stay in native pixels. Holds paths and flat arrays only,
    so workers of a data loader get it cheaply.

    Args:
        root: the folder that has ``annotations/`` and ``frames/``.
        split: ``train`` or ``test``.
        image_size_hw: height and width of the pictures that the network sees.
        small_boxes: see `datasets.annotations.read.read_annotations`.
        cache: a folder for resized frames, which is filled now if it is empty; None decodes.
        progress: show a bar while it is filled.

    Raises `InputError` for what is wrong with the annotations, and for frames that are not there.

    Attributes: `lengths`, int64 ``(V,)``, frames a video; `videos`, their names, sorted;
    `counts`, what filtering took away; `canvas_hw`, the size of the frames as read.
    """

    def __init__(
        self,
        root: Path | str,
        split: str,
        image_size_hw: tuple[int, int],
        *,
        small_boxes: str = "keep",
        cache: Path | str | None = None,
        progress: bool = False,
    ) -> None:
        if len(image_size_hw) != 2 or min(image_size_hw) < 1:
            raise InputError(f"image size {image_size_hw} is not (height, width) of at least 1")
        annotations = read_annotations(root, split, small_boxes=small_boxes)
        self.root = Path(root)
        self.split = split
        self.image_size_hw = (int(image_size_hw[0]), int(image_size_hw[1]))
        self.videos = tuple(video.name for video in annotations.videos)
        self.counts = annotations.counts
        self._table = FrameTable.of(annotations.videos)
        self.lengths = self._table.lengths
        self.files = FrameFiles(root)
        self.files.check_all_there(self._table.names_F.tolist())
        self.store: FrameStore = self.files
        if cache is not None:
            if self.files.folder.resolve() in (Path(cache) / split).resolve().parents:
                raise InputError(
                    f"the frame cache {cache} lies among the frames of {root}; give another folder"
                )
            self.store = open_cache(
                Path(cache) / split,
                self.files,
                self._table,
                self.image_size_hw,
                source=self.files.identity(self._table),
                progress=progress,
            )
        stored = [self.store.stored_size(size_hw) for size_hw in self._table.sizes()]
        self.canvas_hw = (max(height for height, _ in stored), max(width for _, width in stored))

    def __len__(self) -> int:
        return len(self.videos)

    def targets(self, sequence: int, first: int, length: int) -> tuple[FrameTargets, ...]:
        """Targets of `length` frames of video `sequence` from frame `first` on; reads no image."""
        frames = int(self.lengths[sequence])
        if first < 0 or length < 1 or first + length > frames:
            raise IndexError(
                f"video {self.videos[sequence]!r} has {frames} frames, not {first} to "
                f"{first + length}"
            )
        return tuple(self._table.frame(sequence, first + step) for step in range(length))

    def read(
        self, sequence: int, first: int, length: int
    ) -> tuple[torch.Tensor, tuple[FrameTargets, ...]]:
        """Frames, uint8 ``(length, 3, H, W)`` on the canvas, zeros around them; and their targets.

        Raises `InputError` for an image that cannot be read.
        """
        targets = self.targets(sequence, first, length)
        number = int(self._table.video_offsets[sequence]) + first
        frames_TCHW = self.store.read(number, targets)
        (height, width), (canvas_height, canvas_width) = frames_TCHW.shape[2:], self.canvas_hw
        return F.pad(frames_TCHW, (0, canvas_width - width, 0, canvas_height - height)), targets

    def reach(self, sequence: int) -> np.ndarray:
        """The box around all boxes of a video, float ``(4,)``, xyxy as shares of the picture."""
        return self._table.reach(sequence)

    def picture(self, target: FrameTargets) -> torch.Tensor:
        """One frame in its native size, uint8 ``(3, h, w)``, to be looked at."""
        frame_CHW = self.files.read(0, [target])[0]
        return transforms.resize(frame_CHW, list(target.size_hw), antialias=True)
