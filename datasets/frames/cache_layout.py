"""Where each frame of a cache lies.

F frames, h x w pixels.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datasets.annotations.frame_table import FrameTable
from datasets.frames.fitting import fit
from datasets.frames.store import FrameStore


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """`sizes` gives the kept size of each annotated one; frame f lies from `offsets_F1[f]` on."""

    sizes: dict[tuple[int, int], tuple[int, int]]
    offsets_F1: np.ndarray
    """int64 ``(F + 1,)``, in bytes; the last is the size of the file."""

    @classmethod
    def of(cls, table: FrameTable, store: FrameStore, size_hw: tuple[int, int]) -> "CacheLayout":
        """Layout of the frames of `table`, none larger than `size_hw` or than in `store`."""
        annotated_S2, which_F = np.unique(table.sizes_F2, axis=0, return_inverse=True)
        sizes = {}
        for annotated_hw in map(tuple, annotated_S2.tolist()):
            fitted_hw, own_hw = fit(annotated_hw, size_hw), store.stored_size(annotated_hw)
            sizes[annotated_hw] = min(fitted_hw, own_hw, key=lambda hw: hw[0] * hw[1])
        bytes_S = np.array([3 * h * w for h, w in sizes.values()], dtype=np.int64)
        ends_F = np.cumsum(bytes_S[which_F.reshape(-1)], dtype=np.int64)
        return cls(sizes, np.concatenate([[0], ends_F]))

    @property
    def bytes(self) -> int:
        return int(self.offsets_F1[-1])


def runs(table: FrameTable, longest: int) -> Iterator[tuple[int, int, int]]:
    """Video, first position and end of runs of at most `longest` frames of one size, in order."""
    for video, (start, stop) in enumerate(pairwise(table.video_offsets.tolist())):
        sizes_T2 = table.sizes_F2[start:stop]
        changes = np.flatnonzero((sizes_T2[1:] != sizes_T2[:-1]).any(axis=1)) + 1
        for first, end in pairwise([0, *changes.tolist(), stop - start]):
            for begin in range(first, end, longest):
                yield video, begin, min(begin + longest, end)


def names_checksum(table: FrameTable) -> str:
    """A checksum of the names of the frames in order, their annotated sizes and their videos."""
    digest = hashlib.sha256("\n".join(table.names_F.tolist()).encode())
    digest.update(table.sizes_F2.astype("<i4").tobytes())
    digest.update(table.video_offsets.astype("<i8").tobytes())
    return f"sha256:{digest.hexdigest()}"
