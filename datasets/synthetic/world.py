"""The knobs of the synthetic world, and the lengths and classes that follow from them.

Everything else is a function of a `World`, a split and the index of a video.
"""

from dataclasses import asdict, dataclass

import numpy as np

from bload import InputError, action_genome_lengths
from datasets.annotations.vocabulary import OBJECTS, PERSON

VERSION = 2
"""Raised whenever the same knobs would draw different videos."""

CANVAS = 64.0
"""Side of the world in units; an image of another size shows the same world, scaled."""

SPLITS = ("train", "test", "validation", "final")
"""Splits; their order is in the seeds. Choices are made on validation, figures read on final."""


@dataclass(frozen=True, slots=True)
class World:
    """Settings that decide the contents of a synthetic root."""

    train_videos: int = 1000
    test_videos: int = 60
    validation_videos: int = 60
    final_videos: int = 200
    image_size: int = 64
    """Side of the square frames in pixels."""
    seed: int = 0
    object_classes: int = 12
    """Classes in use besides the person."""
    max_objects: int = 3
    """A video has 1 to this many objects, of distinct classes."""
    cue_rate: float = 0.4
    """Probability that a later frame of a state shows its cue again."""
    dwell: float = 16.0
    """Mean length of a state, in frames."""
    delay_rate: float = 0.5
    """Probability that an object's first cue comes after its first frame."""
    drop_rate: float = 0.03
    """Probability of an extra frame, which the reader must drop, before each labelled frame."""

    def __post_init__(self) -> None:
        for name, low, high in (
            *((f"{split}_videos", 1, 100_000) for split in SPLITS),
            ("image_size", 32, 4096),
            ("seed", 0, 2**63),
            ("object_classes", 2, len(OBJECTS) - 2),
            ("max_objects", 1, 9),
            ("cue_rate", 0, 1),
            ("dwell", 1, 1000),
            ("delay_rate", 0, 1),
            ("drop_rate", 0, 0.5),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"{name} is {value} but must be between {low} and {high}")
        if self.max_objects > self.object_classes:
            raise InputError(
                f"max_objects is {self.max_objects} but there are only {self.object_classes} "
                "object classes; raise object_classes or lower max_objects"
            )

    def manifest(self) -> dict[str, int | float]:
        """Return version and every knob, as written beside the annotations."""
        return {"version": VERSION} | asdict(self)

    def classes_K(self) -> np.ndarray:
        """Return the object classes in use, int64 ``(object_classes,)``, spread over all 35."""
        classes = np.arange(PERSON + 1, len(OBJECTS))
        return classes[np.arange(self.object_classes) * len(classes) // self.object_classes]

    def lengths(self, split: str) -> np.ndarray:
        """Return the number of labelled frames of every video of `split`, int64 ``(videos,)``."""
        rng = np.random.default_rng([self.seed, 0, SPLITS.index(split)])
        law = "train" if split == "train" else "test"
        return draw_lengths(law, getattr(self, f"{split}_videos"), rng)

    def video_rng(self, split: str, index: int) -> np.random.Generator:
        """Return the generator from which everything in one video is drawn."""
        return np.random.default_rng([self.seed, 1, SPLITS.index(split), index])


def draw_lengths(split: str, videos: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lengths of `videos` videos, int64 ``(videos,)``: even quantiles of the real ones.

    Only their order depends on `rng`. For as many videos as Action Genome has (7,464 and 1,737),
    this is its exact histogram.
    """
    real = action_genome_lengths(split)
    middle = (np.arange(videos) + 0.5) / videos
    return rng.permutation(real[(middle * len(real)).astype(np.int64)])
