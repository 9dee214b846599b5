"""What a model says of one frame: person-object pairs with scores, in plain numpy.

P pairs, R = 26 relations (0-2 attention, 3-8 spatial, 9-25 contacting).
"""

from dataclasses import dataclass

import numpy as np

from bload.errors import InputError
from datasets.annotations.vocabulary import OBJECTS, RELATIONS

OBJECT_CLASSES = len(OBJECTS) - 1  # without the background
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
        if not isinstance(self.object_classes_P, np.ndarray) or self.object_classes_P.ndim != 1:
            raise InputError("object_classes_P must be a numpy array of shape (P,)")
        P = len(self.object_classes_P)
        _check_shape("person_boxes_P4", self.person_boxes_P4, (P, 4))
        _check_shape("object_boxes_P4", self.object_boxes_P4, (P, 4))
        _check_shape("person_scores_P", self.person_scores_P, (P,))
        _check_shape("object_scores_P", self.object_scores_P, (P,))
        _check_shape("relation_scores_PR", self.relation_scores_PR, (P, len(RELATIONS)))
        check_classes("object_classes_P", self.object_classes_P)
        check_boxes("person_boxes_P4", self.person_boxes_P4)
        check_boxes("object_boxes_P4", self.object_boxes_P4)
        _check_scores("person_scores_P", self.person_scores_P)
        _check_scores("object_scores_P", self.object_scores_P)
        _check_scores("relation_scores_PR", self.relation_scores_PR)

    def __len__(self) -> int:
        """Number of pairs P."""
        return len(self.object_classes_P)

    @classmethod
    def empty(cls) -> "FramePrediction":
        """A frame for which the model proposes nothing; it counts, with recall 0."""
        return cls(
            person_boxes_P4=np.zeros((0, 4), np.float32),
            object_boxes_P4=np.zeros((0, 4), np.float32),
            object_classes_P=np.zeros(0, np.int64),
            person_scores_P=np.zeros(0, np.float32),
            object_scores_P=np.zeros(0, np.float32),
            relation_scores_PR=np.zeros((0, len(RELATIONS)), np.float32),
        )


def check_classes(name: str, classes_N: np.ndarray) -> None:
    """Raise `InputError` unless every object class is an integer in 1..36."""
    if not np.issubdtype(classes_N.dtype, np.integer):
        raise InputError(f"{name} is {classes_N.dtype} but must hold integers in 1..36")
    if classes_N.size and not (classes_N.min() >= 1 and classes_N.max() <= OBJECT_CLASSES):
        bad = classes_N[(classes_N < 1) | (classes_N > OBJECT_CLASSES)][0]
        raise InputError(f"{name} holds {bad} but object classes are 1..36; 0 is the background")


def check_boxes(name: str, boxes_N4: np.ndarray) -> None:
    """Raise `InputError` unless every box is finite and has ``x2 >= x1`` and ``y2 >= y1``."""
    fine_N = (boxes_N4[:, 2:] >= boxes_N4[:, :2]).all(1) & np.isfinite(boxes_N4).all(1)
    if not fine_N.all():
        row = int(np.flatnonzero(~fine_N)[0])
        raise InputError(
            f"{name} row {row} is {boxes_N4[row].tolist()} but must be a finite xyxy box with "
            "x2 >= x1 and y2 >= y1; convert from centre-size or xywh first"
        )


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name} is a {type(array).__name__} but must be a numpy array")
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape} but object_classes_P asks for {shape}")
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"{name} is {array.dtype} but must be a floating-point array")


def _check_scores(name: str, scores: np.ndarray) -> None:
    if not scores.size:
        return
    low, high = float(scores.min()), float(scores.max())
    if not (low >= 0.0 and high <= 1.0 + _ROUNDING):  # False for NaN too: min and max carry it
        bad = low if not low >= 0.0 else high
        raise InputError(
            f"{name} holds {bad:g} but scores are probabilities in 0..1; "
            "apply the softmax (attention) and the sigmoids first and look for NaN"
        )
