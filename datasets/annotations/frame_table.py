"""The targets of many frames in a few flat arrays: cheap to copy to the workers of a data loader.

V videos, F frames in all, M objects and G relations of all frames one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bload.errors import InputError
from datasets.annotations.frame_names import frame_number
from datasets.annotations.read import Video
from datasets.annotations.targets import FrameTargets, unlabelled
from datasets.annotations.vocabulary import OBJECTS, RELATIONS


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The targets of all frames of all videos, in order; a frame's rows lie between offsets."""

    names_F: np.ndarray
    gaps_F: np.ndarray
    """Video frames since the previous annotated one, float32; 0 on a video's first."""
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
    def from_videos(cls, videos: Sequence[Video]) -> "FrameTable":
        """Build the table of at least one video.

        Raises `InputError` naming a frame with a class, a relation or a box that cannot be.
        """
        frames = [frame for video in videos for frame in video.frames]
        table = cls(
            names_F=np.array([frame.name for frame in frames], dtype=np.str_),
            gaps_F=np.concatenate([_gaps(video.frames) for video in videos]),
            sizes_F2=np.array([frame.size_hw for frame in frames], dtype=np.int32),
            person_boxes_F4=np.stack([frame.person_box_4 for frame in frames]),
            object_boxes_M4=np.concatenate([frame.object_boxes_M4 for frame in frames]),
            object_classes_M=np.concatenate([frame.object_classes_M for frame in frames]),
            relations_G2=np.concatenate([frame.relations_G2 for frame in frames]),
            video_offsets=_offsets([len(video.frames) for video in videos]),
            object_offsets=_offsets([len(frame.object_classes_M) for frame in frames]),
            relation_offsets=_offsets([len(frame.relations_G2) for frame in frames]),
        )
        table._check()
        return table

    def _check(self) -> None:
        objects_F, labels_F = np.diff(self.object_offsets), np.diff(self.relation_offsets)
        frame_M, frame_G = (np.repeat(np.arange(len(n_F)), n_F) for n_F in (objects_F, labels_F))
        limit_G2 = np.stack([objects_F[frame_G], np.full(len(frame_G), len(RELATIONS))], axis=1)
        is_class_M = (self.object_classes_M > 0) & (self.object_classes_M < len(OBJECTS))
        is_label_G2 = (self.relations_G2 >= 0) & (self.relations_G2 < limit_G2)
        for words, wrong_N in (
            (f"an object class outside 1..{len(OBJECTS) - 1}", frame_M[~is_class_M]),
            ("a relation of no object or of no class", frame_G[~is_label_G2.all(1)]),
            ("an object box not finite", frame_M[~np.isfinite(self.object_boxes_M4).all(1)]),
            ("a person box not finite", np.flatnonzero(~np.isfinite(self.person_boxes_F4).all(1))),
        ):
            for frame in wrong_N[:1]:
                raise InputError(f"{self.names_F[frame]} has {words}; correct its annotation")

    def sizes(self) -> list[tuple[int, int]]:
        """Return the native sizes (height, width) that occur.

        Raises `InputError` for videos whose frames differ: no picture of them would be whole.
        """
        first_F = np.repeat(self.video_offsets[:-1], self.lengths)
        differs_F = (self.sizes_F2 != self.sizes_F2[first_F]).any(1)
        if differs_F.any():
            frame = int(differs_F.argmax())
            (first_h, first_w), (h, w) = self.sizes_F2[first_F[frame]], self.sizes_F2[frame]
            raise InputError(
                f"{differs_F.sum():,} frames are annotated in another size than the first of their "
                f"video, {self.names_F[frame]} in {w} x {h} instead of {first_w} x {first_h}; "
                "fix bbox_size in the person annotations"
            )
        return [(int(h), int(w)) for h, w in np.unique(self.sizes_F2, axis=0)]

    @property
    def unlabelled(self) -> np.ndarray:
        """Names of the frames without a relation."""
        return self.names_F[np.diff(self.relation_offsets) == 0]

    def check_labelled(self) -> None:
        """Raise `InputError` if a frame has no relation, so that recall cannot count it."""
        for name in self.unlabelled[:1]:
            raise unlabelled(name)

    @property
    def lengths(self) -> np.ndarray:
        """Frames per video, int64 ``(V,)``."""
        return np.diff(self.video_offsets)

    def union_box(self, video: int) -> np.ndarray:
        """Return the box around all boxes of a video, float ``(4,)``, xyxy as frame shares."""
        first, last = self.video_offsets[video : video + 2]
        objects_M4 = self.object_boxes_M4[self.object_offsets[first] : self.object_offsets[last]]
        boxes_N4 = np.concatenate([self.person_boxes_F4[first:last], objects_M4])
        height, width = self.sizes_F2[first]
        corners = np.concatenate([boxes_N4[:, :2].min(0), boxes_N4[:, 2:].max(0)])
        return corners / np.array([width, height] * 2)

    def frame(self, video: int, position: int) -> FrameTargets:
        """Return the targets of frame `position` of video `video`."""
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
            gap=float(self.gaps_F[index]),
        )


def _gaps(frames: Sequence[FrameTargets]) -> np.ndarray:
    """Return the video frames between each frame of a video and the one before, float32."""
    numbers = np.array([frame_number(frame.name) for frame in frames], dtype=np.float32)
    return np.diff(numbers, prepend=numbers[:1])


def _offsets(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
