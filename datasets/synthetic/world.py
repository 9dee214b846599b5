"""The knobs of the synthetic world, and the lengths and classes that follow from them.

Everything else is a function of a `World`, a split and the index of a video.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bload import InputError, action_genome_lengths
from datasets.annotations.read import PUBLISHED_SPLITS
from datasets.annotations.vocabulary import OBJECTS, PERSON
from datasets.config_fields import Checked, number

VERSION = 2
"""Raised whenever the same knobs would draw different videos."""

WORLD_SIDE = 64.0
"""Side of the world in units; an image of another size shows the same world, scaled."""

SPLITS = (*PUBLISHED_SPLITS, "validation", "final")
"""Their order is in the seeds. Choices are made on validation, figures are read on final."""


@dataclass
class World(Checked):
    """Settings that decide the contents of a synthetic root; keys of the group `dataset`."""

    prefix = "dataset."

    train_videos: int = number(1, 100_000, "videos to make for training", 1000)
    test_videos: int = number(1, 100_000, "videos to compare with earlier versions by", 60)
    validation_videos: int = number(1, 100_000, "videos to make for choices, such as best.pt", 60)
    final_videos: int = number(1, 100_000, "videos to make for the figures of runs", 200)
    image_size: int = number(32, 4096, "pixels per side, as written to disk", 64)
    seed: int = number(0, 2**63, "for all random draws", 0)
    object_classes: int = number(2, len(OBJECTS) - 2, "classes in use besides the person", 12)
    max_objects: int = number(1, 9, "a video has 1 to this many objects, of distinct classes", 3)
    cue_rate: float = number(
        0, 1, "probability that a later frame of a state shows its cue again", 0.4
    )
    dwell: float = number(1, 1000, "mean length of a state, in frames", 16.0)
    delay_rate: float = number(
        0, 1, "probability that an object's first cue comes after its first frame", 0.5
    )
    drop_rate: float = number(
        0, 0.5, "probability of an extra frame, to be dropped, before each labelled frame", 0.03
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_objects > self.object_classes:
            raise InputError(
                f"dataset.max_objects is {self.max_objects}, but there are {self.object_classes} "
                "object classes; lower it, or raise dataset.object_classes"
            )

    @property
    def knobs(self) -> dict[str, Any]:
        """Every knob, also of a config that has more fields."""
        return {knob.name: getattr(self, knob.name) for knob in fields(World)}

    @staticmethod
    def root_name(knobs: Mapping[str, Any]) -> str:
        """Return a name for a root: its videos, pixels and seed, and the other knobs if changed."""
        videos = "train_videos", "test_videos", "validation_videos", "final_videos"
        words = [str(knobs[name]) for name in videos]
        words += [f"{knobs['image_size']}px", f"s{knobs['seed']}"]
        for knob in fields(World):
            if (
                knob.name not in (*videos, "image_size", "seed")
                and knobs[knob.name] != knob.default
            ):
                words.append(f"{knob.name}{knobs[knob.name]}")
        return "-".join(words)

    def classes_K(self) -> np.ndarray:
        """Return the object classes in use, int64 ``(object_classes,)``, spread over all 35."""
        classes = np.arange(PERSON + 1, len(OBJECTS))
        return classes[np.arange(self.object_classes) * len(classes) // self.object_classes]

    def lengths(self, split: str) -> np.ndarray:
        """Return the number of labelled frames of every video of `split`, int64 ``(videos,)``."""
        rng = np.random.default_rng([self.seed, 0, SPLITS.index(split)])
        law = "train" if split == "train" else "test"
        return draw_lengths(law, getattr(self, f"{split}_videos"), rng)


def draw_lengths(split: str, videos: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lengths of `videos` videos, int64 ``(videos,)``: even quantiles of the real ones.

    Only their order depends on `rng`. For as many videos as Action Genome has (7,464 and 1,737),
    this is its exact histogram.
    """
    real = action_genome_lengths(split)
    middle = (np.arange(videos) + 0.5) / videos
    return rng.permutation(real[(middle * len(real)).astype(np.int64)])
