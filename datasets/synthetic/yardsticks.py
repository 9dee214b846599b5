"""Yardsticks for a model's recall on a synthetic split: observers with and without memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from datasets.annotations.targets import FrameTargets
from datasets.scoring.recall import RecallMeter
from datasets.source import VideoSource
from datasets.synthetic.observers import (
    EVERYTHING,
    MEMORY_PART,
    MEMORYLESS,
    K,
    evidence_ages,
    expected_recall,
)
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """Memory-dependent triplets of a split, and the recall of two observers on it."""

    memory_of: Mapping[str, np.ndarray]
    """Frame name -> bool ``(G,)`` for the rows of ``relations_G2``, True if memory-dependent."""
    figures: Mapping[str, float]
    """``memoryless/recall@20``, ``remembering/recall@20`` and both with ``_memory``.

    In 0..1, for one pair per object, expected over what the observer does not know.
    """

    def summary(self, meter: RecallMeter) -> dict[str, float]:
        """Return the figures of observers, and the meter's of memory-dependent triplets."""
        memory_G = np.concatenate([self.memory_of[name] for name in meter.names])
        finite = {name: value for name, value in self.figures.items() if value == value}
        return finite | meter.part_summary(MEMORY_PART, memory_G)


def make_yardsticks(source: VideoSource, world: World) -> Yardsticks:
    """Make the yardsticks of a split of `world`."""
    scripts = write_scripts(world, source.split)
    figures = {
        f"{name}/recall@{K}{ending}": expected_recall(scripts, memory, part)
        for name, memory in (("memoryless", MEMORYLESS), ("remembering", EVERYTHING))
        for ending, part in (("", False), (f"_{MEMORY_PART}", True))
    }
    # Rows are matched by class and relation, since small boxes may have been left out.
    age_of_triplet = {
        triplet: age
        for script in scripts
        for target, age_G in zip(script.targets(), evidence_ages(script), strict=True)
        for triplet, age in zip(_triplets(target), age_G, strict=True)
    }
    memory_of = {
        target.name: np.array([age_of_triplet[key] >= 1 for key in _triplets(target)])
        for video in source.videos
        for target in video.frames
    }
    return Yardsticks(memory_of, figures)


def _triplets(target: FrameTargets) -> list[tuple[str, int, int]]:
    """Return frame, object class and relation of each triplet; a video's classes are distinct."""
    classes_M = target.object_classes_M.tolist()
    return [(target.name, classes_M[m], r) for m, r in target.relations_G2.tolist()]
