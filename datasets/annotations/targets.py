"""The scene graph of one frame, as annotated.

M visible objects, G ground-truth relations, R = 26 relation classes.
"""

from dataclasses import dataclass

import numpy as np

from bload import InputError
from datasets.annotations.vocabulary import RELATIONS


@dataclass(frozen=True, slots=True)
class FrameTargets:
    """One person, M >= 1 visible objects, G relations.

    Boxes are xyxy in native pixels, float32. Arrays are numpy, so that processes pass them by
    value.
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


def unlabelled(name: str) -> InputError:
    """Return the error of a frame that cannot be scored."""
    return InputError(
        f"{name} has no ground-truth relation, so its recall is 0 / 0; label a relation of a "
        "visible object in the annotations, or take the frame out of them"
    )
