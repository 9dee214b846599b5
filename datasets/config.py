"""Configs of data sets: every key, its type and its meaning.

A key without a default is in ``configs/dataset/``; those of synthetic data are in
`datasets.synthetic.world`. Values are checked here if no later error would name the key.
"""

from dataclasses import dataclass

from bload.errors import InputError
from datasets.annotations.rules import SMALL_BOXES
from datasets.config_fields import Checked, choice, key, number
from datasets.synthetic.world import World


@dataclass
class AugmentConfig(Checked):
    """Bounds of random changes to training videos; zero changes nothing."""

    prefix = "dataset.augment."

    flip: float = number(0, 1, "probability of mirroring; synthetic cues have an order", 0.0)
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
        "random changes to training videos; null: none", factory=AugmentConfig
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
    def evaluation_splits(self) -> tuple[str | None, str]:
        """Names of the splits for validation, None without any, and for the figures of runs."""
        return "validation" if self.validation else None, "test"


@dataclass
class SyntheticConfig(World, DatasetConfig):
    """A synthetic data set, made on first use, with the keys of a `World`."""

    @property
    def evaluation_splits(self) -> tuple[str | None, str]:
        return "validation", "final"
