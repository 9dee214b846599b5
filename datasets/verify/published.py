"""A split against the published data set: videos, frames, and how many videos of each length."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bload.lengths import action_genome_lengths

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts here and as published; `lengths`: length -> videos (here, published) that differ."""

    videos: int
    frames: int
    published_videos: int
    published_frames: int
    lengths: dict[int, tuple[int, int]]

    @property
    def same(self) -> bool:
        return not self.lengths

    def __str__(self) -> str:
        published = f"{self.published_videos:,} videos, {self.published_frames:,} frames"
        if self.same:
            return f"as published: {published}, and as many videos of every length"
        first = [
            f"{length} frames: {here:,} here, {there:,} published"
            for length, (here, there) in list(self.lengths.items())[:_SHOWN]
        ]
        more = len(self.lengths) - len(first)
        return (
            f"{self.videos:,} videos, {self.frames:,} frames; published are {published}; "
            f"videos of {'; '.join(first)}{f'; {more} more lengths differ' if more else ''}"
        )


def compare_lengths(lengths: np.ndarray, split: str) -> Comparison:
    """Compare the lengths of the videos that count with those embedded in `bload`."""
    published = action_genome_lengths(split)
    here, there = Counter(lengths.tolist()), Counter(published.tolist())
    return Comparison(
        videos=len(lengths),
        frames=int(lengths.sum()),
        published_videos=len(published),
        published_frames=int(published.sum()),
        lengths={
            length: (here[length], there[length])
            for length in sorted(here | there)
            if here[length] != there[length]
        },
    )
