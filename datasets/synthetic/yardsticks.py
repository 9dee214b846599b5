"""Yardsticks for a model's recall on a synthetic split: observers with and without memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from datasets.action_genome import VideoSource
from datasets.scoring.recall import RecallMeter
from datasets.synthetic.evidence import memory_flags
from datasets.synthetic.observers import EVERYTHING, MEMORY_PART, MEMORYLESS, K, expected_recall
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

    def recall(self, meter: RecallMeter) -> dict[str, float]:
        """Return the figures of observers, and the meter's of memory-dependent triplets."""
        memory_G = np.concatenate([self.memory_of[name] for name in meter.names])
        return {**self.figures, **meter.part_summary(MEMORY_PART, memory_G)}


def make_yardsticks(source: VideoSource, world: World) -> Yardsticks:
    """Make the yardsticks of a split of `world`."""
    scripts = write_scripts(world, source.split)
    figures = {
        f"{name}/recall@{K}{ending}": expected_recall(scripts, memory, part)
        for name, memory in (("memoryless", MEMORYLESS), ("remembering", EVERYTHING))
        for ending, part in (("", False), (f"_{MEMORY_PART}", True))
    }
    return Yardsticks(memory_flags(source, scripts), figures)
