"""The prediction of a model for one frame: person-object pairs with scores, in plain numpy.

P pairs, R = 26 relations (0-2 attention, 3-8 spatial, 9-25 contacting).
"""

from dataclasses import dataclass

import numpy as np

from bload import InputError
from datasets.annotations.vocabulary import OBJECT_CLASSES, RELATIONS

_ROUNDING = 1e-6


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
        check_classes("object_classes_P", self.object_classes_P)
        for name, shape in _shapes(len(self)).items():
            array = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"{name} has shape {array.shape} but {len(self)} classes: {shape}")
            if array.dtype.kind != "f":
                raise InputError(f"{name} is {array.dtype} but must be a floating-point array")
            check = check_boxes if name.endswith("P4") else _check_scores
            check(name, array)

    def __len__(self) -> int:
        """Return the number of pairs P."""
        return len(self.object_classes_P)

    @classmethod
    def empty(cls) -> "FramePrediction":
        """Make the prediction of a frame for which nothing is proposed; it counts with recall 0."""
        arrays = {name: np.zeros(shape, np.float32) for name, shape in _shapes(0).items()}
        return cls(object_classes_P=np.zeros(0, np.int64), **arrays)


def _shapes(P: int) -> dict[str, tuple[int, ...]]:
    boxes = dict.fromkeys(("person_boxes_P4", "object_boxes_P4"), (P, 4))
    scores = dict.fromkeys(("person_scores_P", "object_scores_P"), (P,))
    return {**boxes, **scores, "relation_scores_PR": (P, len(RELATIONS))}


def check_classes(name: str, classes_N: np.ndarray) -> None:
    """Raise `InputError` unless every object class is an integer in 1..36."""
    if classes_N.dtype.kind not in "iu":
        raise InputError(f"{name} is {classes_N.dtype} but must hold integers in 1..36")
    if classes_N.size and not 1 <= classes_N.min() <= classes_N.max() <= OBJECT_CLASSES:
        invalid_class = classes_N[(classes_N < 1) | (classes_N > OBJECT_CLASSES)][0]
        raise InputError(
            f"{name} holds {invalid_class} but object classes are 1..{OBJECT_CLASSES}; 0 is the "
            "background"
        )


def check_boxes(name: str, boxes_N4: np.ndarray) -> None:
    """Raise `InputError` unless every box is finite and has ``x2 >= x1`` and ``y2 >= y1``."""
    ordered_N2, finite_N4 = boxes_N4[:, 2:] >= boxes_N4[:, :2], np.isfinite(boxes_N4)
    if not (ordered_N2.all() and finite_N4.all()):
        row = int(np.flatnonzero(~(ordered_N2.all(1) & finite_N4.all(1)))[0])
        raise InputError(
            f"{name} row {row} is {boxes_N4[row].tolist()} but must be a finite xyxy box with "
            "x2 >= x1 and y2 >= y1; convert from centre-size or xywh first"
        )


def _check_scores(name: str, scores: np.ndarray) -> None:
    highest = 1 + _ROUNDING
    if scores.size and not 0 <= scores.min() <= scores.max() <= highest:  # NaN is wrong too
        invalid_score = scores[~((scores >= 0) & (scores <= highest))][0]
        raise InputError(
            f"{name} holds {invalid_score:g} but scores are probabilities in 0..1; "
            "apply the softmax (attention) and the sigmoids first and look for NaN"
        )
