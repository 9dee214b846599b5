"""A dense auxiliary task: every token says what object it lies on, and its relations.

B blocks, T slots, F valid frames, H rows and W columns of tokens, M objects, C = 37 classes,
R = 26 relations.

Set prediction reaches a small backbone from scratch through a few matched queries alone, too thin a
signal to learn what objects look like in minutes. One linear layer on the encoder's tokens, used in
training only, teaches it directly (a one-to-many side task as in Co-DETR, arXiv 2211.12860).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from datasets.vocabulary import PERSON
from models.boxes import corners
from models.outputs import ATTENTION, LABELS, OBJECT_CLASSES
from models.targets import Targets

CLASSES = 1 + OBJECT_CLASSES


class DenseHead(nn.Linear):
    """Tokens ``(..., D)`` -> class and relation logits ``(..., 37 + 26)``."""

    def __init__(self, width: int) -> None:
        super().__init__(width, CLASSES + LABELS.stop)


def dense_loss(logits_BTHWE: Tensor, targets: Targets, valid_BT: Tensor) -> Tensor:
    """Cross-entropies of the tokens of all valid frames, a scalar sum.

    A token whose centre lies in a box should say that object's class and relations; the person
    counts as one more object, without relations. The tokens of an object share a weight of 1; those
    on no object share as much as the frame has objects, and should say "no object". So the sum is
    to be divided by the number of pairs, like the other losses.
    """
    logits_FHWE = logits_BTHWE[valid_BT]
    inside_FMHW = _tokens_inside(targets.object_boxes_FM4, *logits_FHWE.shape[1:3])
    inside_FMHW &= targets.real_FM[..., None, None]
    person_FHW = _tokens_inside(targets.person_boxes_F4, *logits_FHWE.shape[1:3])
    log_class_FHWC = logits_FHWE[..., :CLASSES].log_softmax(-1)

    outside_FHW = ~(inside_FMHW.any(1) | person_FHW)
    objects_F = targets.real_FM.sum(1)
    share_FHW = _shares(outside_FHW) * objects_F[:, None, None]
    nothing = -(share_FHW * log_class_FHWC[..., 0]).sum()
    person = -(_shares(person_FHW) * log_class_FHWC[..., PERSON]).sum()

    # One row for every token of every object.
    frame, object_, row, column = inside_FMHW.nonzero(as_tuple=True)
    share = _shares(inside_FMHW)[frame, object_, row, column]
    log_class = log_class_FHWC[frame, row, column, targets.classes_FM[frame, object_]]
    relations = logits_FHWE[frame, row, column, CLASSES:]
    wanted = targets.relations_FMR[frame, object_].to(relations.dtype)
    attention = (wanted[:, ATTENTION] * relations[:, ATTENTION].log_softmax(-1)).sum(-1)
    labels = F.binary_cross_entropy_with_logits(
        relations[:, LABELS], wanted[:, LABELS], reduction="none"
    ).sum(-1)
    return nothing + person + (share * (labels - attention - log_class)).sum()


def _tokens_inside(boxes: Tensor, height: int, width: int) -> Tensor:
    """Whether each token's centre lies in each box ``(..., 4)``, bool ``(..., H, W)``."""
    x1, y1, x2, y2 = corners(boxes)[..., None].unbind(-2)
    x_W = (torch.arange(width, device=x1.device) + 0.5) / width
    y_H = (torch.arange(height, device=x1.device) + 0.5) / height
    inside_x = (x_W >= x1) & (x_W < x2)
    inside_y = (y_H >= y1) & (y_H < y2)
    return inside_y[..., :, None] & inside_x[..., None, :]


def _shares(chosen: Tensor) -> Tensor:
    """Equal weights of the chosen tokens ``(..., H, W)`` that sum to 1 (to 0 if none is chosen)."""
    return chosen / chosen.sum((-1, -2), keepdim=True).clamp(min=1)
