"""How long the videos are: Action Genome's own lengths, or an even thinning of them."""

import json
from functools import cache
from pathlib import Path

import numpy as np

import bload

COUNTS_FILE = Path(bload.__file__).parent / "data" / "action_genome_lengths.json"


@cache
def real_lengths(split: str) -> np.ndarray:
    """Lengths in frames of all real videos of `split`, ascending, int64 ``(V,)``."""
    counts = json.loads(COUNTS_FILE.read_text())[split]
    lengths = np.array([int(length) for length in counts], dtype=np.int64)
    return np.sort(np.repeat(lengths, [counts[length] for length in counts]))


def draw_lengths(split: str, videos: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths of `videos` videos, int64 ``(videos,)``: evenly spaced quantiles of the real ones.

    Which lengths there are does not depend on `rng`, only their order does. Asked for as many
    videos as Action Genome has (7,464 and 1,737), this is its exact histogram.
    """
    real = real_lengths(split)
    middle = (np.arange(videos) + 0.5) / videos
    return rng.permutation(real[(middle * len(real)).astype(np.int64)])
