"""What the network says about every frame of a batch.

L layers (all spatial ones, then all temporal ones), B blocks, T slots, N queries, F frames,
K = 36 object classes, R = 26 relations.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

OBJECT_CLASSES = 36
"""Object classes; logit 0 is "no object", logits 1 to 36 are the classes of the vocabulary."""
ATTENTION = slice(0, 3)
"""Attention relations: one of three, a softmax."""
LABELS = slice(3, 26)
"""Spatial (3 to 8) and contacting (9 to 25) relations: any number of them, sigmoids."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Query n describes one pair (person, object) in every field; the last layer is the answer.

    Boxes are (centre x, centre y, width, height) as shares of the frame, however much of a canvas
    it fills. Everything is in the parameters' precision, also under autocast.
    """

    person_boxes_LBTN4: Tensor
    object_boxes_LBTN4: Tensor
    class_logits_LBTNK: Tensor
    """``(L, B, T, N, 37)``: no object, then the 36 classes."""
    union_boxes_LBTN4: Tensor
    """The box around person and object, from the relation branch."""
    relation_logits_LBTNR: Tensor
    dense_logits_BTHWE: Tensor | None = None
    """Of every token, ``(B, T, H, W, 37 + 26)``, see `models.dense`; in training only."""
    extent_BT2: Tensor | None = None
    """Share (x, y) of the canvas that the pictures fill; None: all. The dense task alone asks."""


def relation_scores(logits: Tensor) -> Tensor:
    """Relation logits ``(..., 26)`` -> scores: softmax over attention, sigmoid for the others."""
    return torch.cat((logits[..., ATTENTION].softmax(-1), logits[..., LABELS].sigmoid()), dim=-1)
