"""Configs of data sets: every key, its type and its meaning.

A key without a default is in ``configs/dataset/``. Values are checked here if no later error would
name the key.
"""

from dataclasses import dataclass, fields
from typing import Any

from bload.errors import InputError
from datasets.annotations.rules import SMALL_BOXES
from datasets.fields import Checked, choice, key, number
from datasets.synthetic.world import World


@dataclass
class AugmentConfig(Checked):
    """Bounds of random changes to training videos; zero changes nothing."""

    prefix = "dataset.augment."

    flip: float = number(0, 1, "probability of mirroring a video, left to right", 0.0)
    jitter: float = number(
        0, 1, "brightness, contrast, saturation by 1 - jitter to 1 + jitter", 0.0
    )
    crop: float = number(0, 1, "largest share to cut from each margin around annotated boxes", 0.0)
    shrink: float = number(0, 0.9, "largest share by which pictures are below the canvas", 0.0)


@dataclass
class DatasetConfig(Checked):
    """One data set in the files of Action Genome."""

    prefix = "dataset."

    name: str = key("kind of data: action_genome or synthetic")
    root: str = key("folder with annotations/ and frames/")
    frame_size: list[int] = key("height and width of the canvas that frames are fitted into")
    small_boxes: str = choice(
        SMALL_BOXES, "boxes of 16 pixels or less; file: drop the published ones", "keep"
    )
    cache: str | None = key("folder for resized frames, filled by the first run", None)
    augment: AugmentConfig | None = key(
        "random changes to training videos; null: none", AugmentConfig
    )
    validation: float = number(
        0, 0.5, "share of the training videos to validate on, if the data have no such split", 0.0
    )

    def __post_init__(self) -> None:
        if len(self.frame_size) != 2 or not all(8 <= side <= 8192 for side in self.frame_size):
            raise InputError(
                f"dataset.frame_size is {self.frame_size}; give height and width, 8 to 8192 each"
            )
        super().__post_init__()

    @property
    def splits(self) -> tuple[str | None, str]:
        """Names of the splits for validation, None without any, and for the figures of runs."""
        return "validation" if self.validation else None, "test"


@dataclass(kw_only=True)
class SyntheticConfig(DatasetConfig):
    """A synthetic data set, made on first use; see `datasets.synthetic.world.World`."""

    train_videos: int = key("videos to make for training")
    test_videos: int = key("videos to make for comparisons with earlier versions")
    validation_videos: int = key("videos to make for choices, such as best.pt")
    final_videos: int = key("videos to make for the figures of runs")
    image_size: int = key("pixels per side, as written to disk")
    seed: int = key("for all random draws")
    object_classes: int = key("classes in use besides the person, 2 to 34")
    max_objects: int = key("a video has 1 to this many objects, of distinct classes")
    cue_rate: float = key("probability that a later frame of a state shows its cue again")
    dwell: float = key("mean length of a state, in frames")
    delay_rate: float = key("probability that an object's first cue comes after its first frame")
    drop_rate: float = key(
        "probability of an extra frame, to be dropped, before each labelled frame"
    )

    @property
    def splits(self) -> tuple[str | None, str]:
        return "validation", "final"

    @property
    def knobs(self) -> dict[str, Any]:
        """Arguments of `World`, which checks them."""
        return {knob.name: getattr(self, knob.name) for knob in fields(World)}
