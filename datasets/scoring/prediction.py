"""The prediction of a model for one frame: person-object pairs with scores, in plain numpy.

P pairs, R = 26 relations (0-2 attention, 3-8 spatial, 9-25 contacting).
"""

from dataclasses import dataclass

import numpy as np

from bload import InputError
from datasets.annotations.vocabulary import OBJECT_CLASSES, RELATIONS

_HIGHEST = 1 + 1e-6  # by rounding


@dataclass(frozen=True, slots=True)
class FramePrediction:
    """The pairs that a model proposes for one frame, in any order; P may be 0.

    Boxes are xyxy in native pixels with ``x2 >= x1`` and ``y2 >= y1``; scores are probabilities
    in 0..1. Raises `InputError` on anything else (wrong shapes, NaN, logits, classes out of
    range).
    """

    person_boxes_P4: np.ndarray
    object_boxes_P4: np.ndarray
    object_classes_P: np.ndarray
    """Integers 1 to 36; the subject is always a person (class 1)."""
    person_scores_P: np.ndarray
    object_scores_P: np.ndarray
    relation_scores_PR: np.ndarray
    """Attention (columns 0-2) is a softmax over 3, the other 23 columns are sigmoids."""

    def __post_init__(self) -> None:
        classes_P = self.object_classes_P
        if classes_P.dtype.kind not in "iu":
            raise InputError(f"object_classes_P is {classes_P.dtype} but must hold integers")
        if len(self) and not 1 <= classes_P.min() <= classes_P.max() <= OBJECT_CLASSES:
            wrong = classes_P[(classes_P < 1) | (classes_P > OBJECT_CLASSES)][0]
            raise InputError(f"object_classes_P holds {wrong} but classes are 1..{OBJECT_CLASSES}")
        boxes = dict.fromkeys(("person_boxes_P4", "object_boxes_P4"), (len(self), 4))
        scores: dict[str, tuple[int, ...]] = {"relation_scores_PR": (len(self), len(RELATIONS))}
        scores |= dict.fromkeys(("person_scores_P", "object_scores_P"), (len(self),))
        for name, shape in (boxes | scores).items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != "f":
                raise InputError(f"{name} is {array.dtype} {array.shape} but must be float {shape}")
            (_check_boxes if name in boxes else _check_scores)(name, array)

    def __len__(self) -> int:
        """Return the number of pairs P."""
        return len(self.object_classes_P)


def _check_boxes(name: str, boxes_P4: np.ndarray) -> None:
    is_box_P = (boxes_P4[:, 2:] >= boxes_P4[:, :2]).all(1) & np.isfinite(boxes_P4).all(1)
    if not is_box_P.all():
        row = int(np.argmin(is_box_P))
        raise InputError(
            f"{name} row {row} is {boxes_P4[row].tolist()} but must be a finite xyxy box with "
            "x2 >= x1 and y2 >= y1; convert from centre-size or xywh first"
        )


def _check_scores(name: str, scores: np.ndarray) -> None:
    if scores.size and not 0 <= scores.min() <= scores.max() <= _HIGHEST:  # NaN is wrong too
        invalid_score = scores[~((scores >= 0) & (scores <= _HIGHEST))][0]
        raise InputError(
            f"{name} holds {invalid_score:g} but scores are probabilities in 0..1; "
            "apply the softmax (attention) and the sigmoids first and look for NaN"
        )
