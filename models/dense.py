"""A dense auxiliary task: every token predicts the object it lies on, and its relations.

B blocks, T slots, F valid frames, H rows and W columns of S tokens, M objects, C = 37 classes,
R = 26 relations.

Set prediction trains a small backbone only through a few matched queries, too thin a signal to
learn in minutes what objects look like. One linear layer on the encoder's tokens, used in training
only, teaches it directly (a one-to-many side task as in Co-DETR, arXiv 2211.12860).
"""

import torch.nn.functional as F
from torch import Tensor
from torchvision.ops import box_convert

from bload.batch.trees import to_device
from datasets.annotations.vocabulary import ATTENTION, PERSON
from models.extent import cell_points, cells_inside
from models.outputs import CLASSES, LABELS
from models.targets import TargetTensors


def dense_loss(
    logits_BTHWE: Tensor, targets: TargetTensors, valid_BT: Tensor, extent_BT2: Tensor | None = None
) -> Tensor:
    """Return the summed cross-entropy of the tokens of all valid frames, a scalar.

    A token's logits are those of its class, then of its relations, E = 37 + 26. A token whose
    centre lies in a box should predict that object's class and relations; the person is one more
    object, without relations. The tokens of an object share a weight of 1. Tokens on no object
    should predict "no object" and share a weight of the frame's number of objects. Tokens outside
    the picture, which fills `extent_BT2` of its canvas, do not count. The caller divides by the
    number of pairs, as for other losses.

    The host assigns tokens to boxes: with `valid_BT` and `extent_BT2` on it, nothing synchronises
    with the device of the logits.
    """
    rows, columns = logits_BTHWE.shape[2:4]
    valid_BT = valid_BT.cpu()
    extent_F2 = None if extent_BT2 is None else extent_BT2.cpu()[valid_BT]
    persons_F14, objects_FM4 = targets.host_boxes_FM34[:, :1, 0], targets.host_boxes_FM34[:, :, 1]
    centres = cell_points(rows, columns, objects_FM4, extent_F2)
    inside_FMS = _tokens_inside(objects_FM4, centres) & targets.is_object_FM[..., None]
    person_FS = _tokens_inside(persons_F14, centres).squeeze(1)
    outside_FS = ~(inside_FMS.any(1) | person_FS)
    if extent_F2 is not None:
        picture_FS = cells_inside(extent_F2, rows, columns).flatten(1)
        inside_FMS, person_FS = inside_FMS & picture_FS[:, None], person_FS & picture_FS
        outside_FS &= picture_FS

    def move(values: Tensor) -> Tensor:
        return to_device(values, logits_BTHWE.device)

    frame_F = move(valid_BT.flatten().nonzero().squeeze(1))
    logits_FSE = logits_BTHWE.flatten(0, 1)[frame_F].flatten(1, 2)
    log_class_FSC = logits_FSE[..., :CLASSES].log_softmax(-1)
    share_FS = _shares(outside_FS) * targets.is_object_FM.sum(1)[:, None]
    background_loss = -(move(share_FS) * log_class_FSC[..., 0]).sum()
    person_loss = -(move(_shares(person_FS)) * log_class_FSC[..., PERSON]).sum()

    # One row for every token of every object.
    rows_P3 = inside_FMS.nonzero()
    share = move(_shares(inside_FMS)[rows_P3.unbind(1)])
    frame, object_, token = move(rows_P3).unbind(1)
    log_class = log_class_FSC[frame, token, targets.classes_FM[frame, object_]]
    relations = logits_FSE[frame, token, CLASSES:]
    target_relations = targets.relations_FMR[frame, object_].to(relations.dtype)
    attention = (target_relations[:, ATTENTION] * relations[:, ATTENTION].log_softmax(-1)).sum(-1)
    labels = F.binary_cross_entropy_with_logits(
        relations[:, LABELS], target_relations[:, LABELS], reduction="none"
    ).sum(-1)
    return background_loss + person_loss + (share * (labels - attention - log_class)).sum()


def _tokens_inside(boxes_FM4: Tensor, centres: Tensor) -> Tensor:
    """Return True where the centre of a token, ``(S, 2)`` or ``(F, S, 2)``, lies in a box."""
    x1, y1, x2, y2 = box_convert(boxes_FM4, "cxcywh", "xyxy")[..., None].unbind(-2)
    x, y = centres.view(-1, 1, *centres.shape[-2:]).unbind(-1)
    return (x >= x1) & (x < x2) & (y >= y1) & (y < y2)


def _shares(selection: Tensor) -> Tensor:
    """Return equal weights of the selected tokens ``(..., S)``, with sum 1 (0 if there is none)."""
    return selection / selection.sum(-1, keepdim=True).clamp(min=1)
