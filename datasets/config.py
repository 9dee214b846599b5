"""Configs of data sets: every key, its type and its meaning.

Values are in ``configs/dataset/``. They are checked here if no later error would name the key.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from bload import InputError
from bload.errors import check_choice, check_number
from datasets.annotations.rules import SMALL_BOXES
from datasets.synthetic.world import World


@dataclass
class AugmentConfig:
    """Bounds of random changes to training videos; zero changes nothing."""

    flip: float = 0.0  # probability of mirroring a video, left to right
    jitter: float = 0.0  # factors of brightness, contrast and saturation: 1 - jitter to 1 + jitter
    crop: float = 0.0  # largest share to cut from each margin around annotated boxes
    shrink: float = 0.0  # largest share by which pictures are smaller than the canvas

    def __post_init__(self) -> None:
        for name, largest in {"flip": 1, "jitter": 1, "crop": 1, "shrink": 0.9}.items():
            check_number(f"dataset.augment.{name}", getattr(self, name), 0, largest)


@dataclass
class DatasetConfig:
    """One data set in the files of Action Genome."""

    name: str  # kind of data: action_genome or synthetic
    root: str  # folder with annotations/ and frames/
    frame_size: list[int]  # height and width of the canvas that frames are fitted into
    small_boxes: str = "keep"  # of 16 pixels or less: keep, or drop by file (published) or computed
    cache: str | None = None  # folder for resized frames, filled by the first run
    # random changes to training videos; null: none
    augment: AugmentConfig | None = field(default_factory=AugmentConfig)
    # share of the training videos to validate on, up to 0.5, if the data have no such split
    validation: float = 0.0

    def __post_init__(self) -> None:
        if len(self.frame_size) != 2 or not all(8 <= side <= 8192 for side in self.frame_size):
            raise InputError(
                f"dataset.frame_size is {self.frame_size}; give height and width, 8 to 8192 each"
            )
        check_choice("dataset.small_boxes", self.small_boxes, SMALL_BOXES)
        check_number("dataset.validation", self.validation, 0, 0.5)

    @property
    def splits(self) -> tuple[str | None, str]:
        """Names of the splits for validation, None without any, and for the figures of runs."""
        return "validation" if self.validation else None, "test"


@dataclass(kw_only=True)
class SyntheticConfig(DatasetConfig):
    """A synthetic data set, made on first use; see `datasets.synthetic.world.World`."""

    train_videos: int  # videos to make for training
    test_videos: int  # videos to make for comparisons with earlier versions
    validation_videos: int  # videos to make for choices, such as best.pt
    final_videos: int  # videos to make for the figures of runs
    image_size: int  # pixels per side, as written to disk
    seed: int  # for all random draws
    object_classes: int  # classes in use besides the person, 2 to 34
    max_objects: int  # a video has 1 to this many objects, of distinct classes
    cue_rate: float  # probability that a later frame of a state shows its cue again
    dwell: float  # mean length of a state, in frames
    delay_rate: float  # probability that an object's first cue comes after its first frame
    drop_rate: float  # probability of an extra frame, to be dropped, before each labelled frame

    @property
    def splits(self) -> tuple[str | None, str]:
        return "validation", "final"

    @property
    def knobs(self) -> dict[str, Any]:
        """Arguments of `World`, which checks them."""
        return {knob.name: getattr(self, knob.name) for knob in fields(World)}
