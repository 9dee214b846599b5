"""How long the videos are: Action Genome's own lengths, or an even thinning of them."""

import numpy as np

from bload.lengths import action_genome_lengths


def draw_lengths(split: str, videos: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths of `videos` videos, int64 ``(videos,)``: evenly spaced quantiles of the real ones.

    Which lengths there are does not depend on `rng`, only their order does. Asked for as many
    videos as Action Genome has (7,464 and 1,737), this is its exact histogram.
    """
    real = action_genome_lengths(split)
    middle = (np.arange(videos) + 0.5) / videos
    return rng.permutation(real[(middle * len(real)).astype(np.int64)])
