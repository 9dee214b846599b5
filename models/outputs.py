"""Outputs of the network for every frame of a batch.

L layers (all spatial ones, then all temporal ones), B blocks, T slots, N queries, F frames,
K = 37 classes (36 of objects, and none), R = 26 relations.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from datasets.annotations.vocabulary import ATTENTION, OBJECTS, RELATIONS

CLASSES = len(OBJECTS)
"""37 logits: 0 is "no object" (the background of the vocabulary), 1 to 36 its object classes."""
LABELS = slice(ATTENTION.stop, len(RELATIONS))
"""Spatial (3 to 8) and contacting (9 to 25) relations, each a sigmoid. The attention relations
before them (0 to 2) exclude each other: a softmax."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Query n describes one pair (person, object) in every field; the last layer is the answer.

    Boxes are (centre x, centre y, width, height) as shares of the frame, not of its canvas.
    Everything is in the parameters' precision, also under autocast.
    """

    person_boxes_LBTN4: Tensor
    object_boxes_LBTN4: Tensor
    class_logits_LBTNK: Tensor
    """``(L, B, T, N, 37)``: no object, then the 36 classes."""
    union_boxes_LBTN4: Tensor
    """The box around person and object, from the relation branch."""
    relation_logits_LBTNR: Tensor
    dense_logits_BTHWE: Tensor | None = None
    """For every token, ``(B, T, H, W, 37 + 26)``, see `models.dense`; in training only."""
    extent_BT2: Tensor | None = None
    """Share (x, y) of the canvas that the pictures fill, as given; for `models.dense`."""
    state: Any = None
    """State of the temporal parts after the last slot, without gradient, to continue from."""


def relation_scores(logits: Tensor) -> Tensor:
    """Relation logits ``(..., 26)`` -> scores: softmax over attention, sigmoid for the others."""
    return torch.cat((logits[..., ATTENTION].softmax(-1), logits[..., LABELS].sigmoid()), dim=-1)


def trained_fields(outputs: Outputs) -> tuple[Tensor, ...]:
    """Return the fields of the outputs that have a gradient, in their order."""
    values = (getattr(outputs, field.name) for field in fields(outputs))
    return tuple(value for value in values if isinstance(value, Tensor) and value.requires_grad)
