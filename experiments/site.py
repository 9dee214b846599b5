"""The place where a job is to run: its data as far as they are there."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bload import BlockSampler, InputError, action_genome_lengths
from datasets.annotations import read
from datasets.annotations.frame_names import frames_by_video
from datasets.frames.files import FrameFiles
from datasets.prepare.pilot import Pilot, pilot
from training.config import TrainJob
from training.ranks import Ranks


@dataclass
class Site:
    """A job, the rank that looks, and what it has found; `seconds` are those of a pilot."""

    cfg: TrainJob
    ranks: Ranks
    seconds: float
    to_write: float = 0.0
    """Bytes of frames that are still to be extracted."""
    to_save: float = 0.0
    """Bytes of checkpoints."""
    share: float = 1.0
    """Of the pictures, to be recomputed."""
    failed: list[str] = field(default_factory=list)
    """Checks that found something to do."""

    @property
    def root(self) -> Path:
        return Path(self.cfg.dataset.root)

    @cached_property
    def files(self) -> tuple[dict, dict]:
        return read.read_files(self.root, self.cfg.dataset.small_boxes)

    @cached_property
    def counted(self) -> dict[str, tuple[read.Video, ...]]:
        """Split -> videos that count; raises `InputError` for faults in the annotations."""
        small_boxes, splits = self.cfg.dataset.small_boxes, {}
        for split in read.SPLITS:
            found = read.filter_annotations(*self.files, split, small_boxes=small_boxes)
            found.problems.refuse(self.root / "annotations", "python -m datasets.verify lists all")
            splits[split] = found.videos
        return splits

    @cached_property
    def lengths(self) -> dict[str, list[int]]:
        """Split -> frames of every video that counts; Action Genome's own while none are there."""
        try:
            found = self.counted
        except InputError:
            return {split: action_genome_lengths(split).tolist() for split in read.SPLITS}
        return {split: [len(video.frames) for video in found[split]] for split in found}

    @cached_property
    def missing(self) -> dict[str, list[str]]:
        """Annotated frames that are not there, by video, for videos with some that count."""
        frames, counted = FrameFiles(self.root), set[str]()
        for video in (video for videos in self.counted.values() for video in videos):
            if not all(frames.path(frame.name).exists() for frame in video.frames):
                counted.add(video.name)
        wanted = frames_by_video(self.files[0])
        return {video: wanted[video] for video in sorted(counted)}

    @cached_property
    def extracted(self) -> Pilot:
        return pilot(self.root, self.missing, self.seconds)

    @cached_property
    def sampler(self) -> BlockSampler:
        """The blocks of an epoch on one rank."""
        cfg = self.cfg
        place = {"rank": 0, "world_size": 1, "micro_batches": cfg.train.micro_batches}
        options = {"batch_frames": cfg.train.batch_frames, **place, **cfg.loader.options}
        return BlockSampler(self.lengths["train"], cfg.loader.name, **options)
