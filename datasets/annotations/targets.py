"""The scene graphs of a video, as annotated.

M visible objects, G ground-truth relations, R = 26 relation classes; T frames, N boxes of a
video.
"""

from dataclasses import dataclass

import numpy as np

from bload import InputError
from datasets.annotations.vocabulary import OBJECT_CLASSES, RELATIONS


@dataclass(frozen=True, slots=True)
class FrameTargets:
    """One person, M >= 1 visible objects, G relations.

    Boxes are xyxy in native pixels, float32. Arrays are numpy, so that processes pass them by
    value. They are made once, from the annotations, and never written to.
    """

    name: str
    """Frame as in the annotations, ``001YG.mp4/000089.png``."""
    size_hw: tuple[int, int]
    """Native height and width in pixels."""
    person_box_4: np.ndarray
    object_boxes_M4: np.ndarray
    object_classes_M: np.ndarray
    """int64, 1 to 36 as in `vocabulary.OBJECTS`; 0 is the background, 1 the person."""
    relations_G2: np.ndarray
    """int64 rows (object row 0..M-1, relation 0..25), one per label, in annotation order.

    Nothing is de-duplicated: the measure counts a label as often as it is written."""
    gap: float = 0.0
    """Video frames since the previous annotated one, 0 on a video's first."""

    def relations_MR(self) -> np.ndarray:
        """Return the multi-hot relations of each object, bool ``(M, 26)``."""
        multi_hot = np.zeros((len(self.object_classes_M), len(RELATIONS)), dtype=bool)
        multi_hot[self.relations_G2[:, 0], self.relations_G2[:, 1]] = True
        return multi_hot

    def check_labelled(self) -> None:
        """Raise `InputError` if there is no relation, so that recall cannot count the frame."""
        if not len(self.relations_G2):
            raise InputError(
                f"{self.name} has no ground-truth relation, so its recall is 0 / 0; label a "
                "relation of a visible object in the annotations, or take the frame out of them"
            )


@dataclass(frozen=True, slots=True)
class Video:
    """One video of a split: its name (``001YG.mp4``) and its labelled frames in order of time."""

    name: str
    frames: tuple[FrameTargets, ...]

    @property
    def size_hw(self) -> tuple[int, int]:
        """Native height and width; raises `InputError` if they differ between frames."""
        first_h, first_w = self.frames[0].size_hw
        for frame in self.frames:
            if frame.size_hw != (first_h, first_w):
                h, w = frame.size_hw
                raise InputError(
                    f"frames are annotated in another size than the first of their video, "
                    f"{frame.name} in {w} x {h} instead of {first_w} x {first_h}; fix bbox_size in "
                    "the person annotations"
                )
        return first_h, first_w

    def boxes_N4(self) -> np.ndarray:
        """Return the boxes of all frames' objects and persons, ``(N, 4)``."""
        persons_T4 = np.stack([frame.person_box_4 for frame in self.frames])
        return np.concatenate([persons_T4, *(frame.object_boxes_M4 for frame in self.frames)])

    def union_box(self) -> np.ndarray:
        """Return the box around all boxes, float ``(4,)``, xyxy as shares of the frame."""
        boxes_N4, (height, width) = self.boxes_N4(), self.frames[0].size_hw
        corners_4 = np.concatenate([boxes_N4[:, :2].min(0), boxes_N4[:, 2:].max(0)])
        return corners_4 / np.array([width, height] * 2)

    def check(self) -> None:
        """Raise `InputError` for a class, a relation or a box that cannot be."""
        classes = np.concatenate([frame.object_classes_M for frame in self.frames])
        row, relation = np.concatenate([frame.relations_G2 for frame in self.frames]).T
        objects = [np.full(len(f.relations_G2), len(f.object_classes_M)) for f in self.frames]
        for words, wrong in (
            (
                f"an object class outside 1..{OBJECT_CLASSES}",
                (classes < 1) | (classes > OBJECT_CLASSES),
            ),
            ("a relation of no object", (row < 0) | (row >= np.concatenate(objects))),
            ("a relation of no class", (relation < 0) | (relation >= len(RELATIONS))),
            ("a box that is not finite", ~np.isfinite(self.boxes_N4())),
        ):
            if wrong.any():
                raise InputError(f"{self.name} has {words}; correct its annotations")
