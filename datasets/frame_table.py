"""Many frames' targets in a few flat arrays: cheap to copy to the workers of a data loader.

V videos, F frames in all, M objects and G relations of all frames one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.annotations import Video
from datasets.targets import FrameTargets


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The targets of all frames of all videos, in order; frame f's rows lie between offsets."""

    names_F: np.ndarray
    sizes_F2: np.ndarray
    person_boxes_F4: np.ndarray
    object_boxes_M4: np.ndarray
    object_classes_M: np.ndarray
    relations_G2: np.ndarray
    video_offsets: np.ndarray
    """``(V + 1,)`` first frame of each video."""
    object_offsets: np.ndarray
    """``(F + 1,)`` first object row of each frame."""
    relation_offsets: np.ndarray
    """``(F + 1,)`` first relation row of each frame."""

    @classmethod
    def of(cls, videos: Sequence[Video]) -> "FrameTable":
        """The table of at least one video."""
        frames = [frame for video in videos for frame in video.frames]
        return cls(
            names_F=np.array([frame.name for frame in frames], dtype=np.str_),
            sizes_F2=np.array([frame.size_hw for frame in frames], dtype=np.int32),
            person_boxes_F4=np.stack([frame.person_box_4 for frame in frames]),
            object_boxes_M4=np.concatenate([frame.object_boxes_M4 for frame in frames]),
            object_classes_M=np.concatenate([frame.object_classes_M for frame in frames]),
            relations_G2=np.concatenate([frame.relations_G2 for frame in frames]),
            video_offsets=_offsets([len(video.frames) for video in videos]),
            object_offsets=_offsets([len(frame.object_classes_M) for frame in frames]),
            relation_offsets=_offsets([len(frame.relations_G2) for frame in frames]),
        )

    @property
    def lengths(self) -> np.ndarray:
        """Frames a video, int64 ``(V,)``."""
        return np.diff(self.video_offsets)

    def frame(self, video: int, position: int) -> FrameTargets:
        """Targets of frame `position` of video `video`."""
        index = int(self.video_offsets[video]) + position
        objects = slice(*self.object_offsets[index : index + 2])
        relations = slice(*self.relation_offsets[index : index + 2])
        height, width = self.sizes_F2[index].tolist()
        return FrameTargets(
            name=str(self.names_F[index]),
            size_hw=(height, width),
            person_box_4=self.person_boxes_F4[index].copy(),
            object_boxes_M4=self.object_boxes_M4[objects].copy(),
            object_classes_M=self.object_classes_M[objects].copy(),
            relations_G2=self.relations_G2[relations].copy(),
        )


def _offsets(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
