"""Which query answers for which object: Hungarian matching frame by frame.

L layers, F valid frames, N queries, M objects (padded), P matched pairs of one layer, K object
classes, R relations.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from bload.errors import InputError
from models.boxes import corners, generalized_iou
from models.outputs import relation_scores
from models.targets import Targets

COST_CLASS, COST_RELATION, COST_L1, COST_GIOU = 1.0, 1.0, 2.5, 1.0


@dataclass(frozen=True, slots=True)
class Predictions:
    """The network's outputs at the valid frames alone; fields as in `models.outputs.Outputs`."""

    person_boxes_LFN4: Tensor
    object_boxes_LFN4: Tensor
    class_logits_LFNK: Tensor
    union_boxes_LFN4: Tensor
    relation_logits_LFNR: Tensor


@dataclass(frozen=True, slots=True)
class Matches:
    """P pairs a layer: in frame ``frame_P``, query ``query_LP`` answers for object ``object_LP``.

    P is the same in every layer: a frame gives as many pairs as it has objects, or queries if
    those are fewer.
    """

    frame_P: Tensor
    object_LP: Tensor
    query_LP: Tensor


@torch.no_grad()
def match(predictions: Predictions, targets: Targets, boxes: str = "worst") -> Matches:
    """Match all layers of all frames, with one copy from device to host.

    `boxes` as in `matching_cost`.

    Raises:
        InputError: a cost is not a number; the training has diverged.
    """
    cost_LFNM = matching_cost(predictions, targets, boxes).cpu().numpy()
    layers = len(cost_LFNM)
    # Padded rows are finite whatever they hold, so one look at everything is enough.
    if not np.isfinite(cost_LFNM).all():
        bad = np.count_nonzero(~np.isfinite(cost_LFNM))
        raise InputError(
            f"{bad} of {cost_LFNM.size} matching costs are not finite: the training has diverged; "
            f"lower the learning rate or the clipping norm, or train in float32"
        )
    queries = cost_LFNM.shape[2]
    frames = np.repeat(
        np.arange(len(targets.objects)), [min(count, queries) for count in targets.objects]
    )
    chosen = np.empty((2, layers, len(frames)), np.int64)
    first = 0
    for frame, count in enumerate(targets.objects):
        last = first + min(count, queries)
        for layer in range(layers):
            # Objects are the rows: they are few, and come back in order.
            rows, columns = linear_sum_assignment(cost_LFNM[layer, frame, :, :count].T)
            chosen[0, layer, first:last] = rows
            chosen[1, layer, first:last] = columns
        first = last
    device = predictions.class_logits_LFNK.device
    objects_LP, queries_LP = torch.from_numpy(chosen).to(device, non_blocking=True).unbind()
    frame_P = torch.from_numpy(frames).to(device, non_blocking=True)
    return Matches(frame_P=frame_P, object_LP=objects_LP, query_LP=queries_LP)


def matching_cost(predictions: Predictions, targets: Targets, boxes: str = "worst") -> Tensor:
    """Cost of query n answering for object m, ``(L, F, N, M)``.

    Object class and relations count by their scores, boxes by L1 and generalised IoU. Of these,
    ``boxes="worst"`` takes the worse of person and object box, as QPIC does (arXiv 2103.05399), and
    ``boxes="sum"`` the sum of person, object and union box. The worse box of a network from scratch
    is the person's, which is equally bad in all queries; the sum lets the object's box decide from
    the first step on.
    """
    probability = predictions.class_logits_LFNK.softmax(-1)
    layers, _, queries, _ = probability.shape
    classes = targets.classes_FM[None, :, None].expand(layers, -1, queries, -1)
    cost = -COST_CLASS * probability.gather(-1, classes)
    scores = relation_scores(predictions.relation_logits_LFNR)
    cost = cost + COST_RELATION * _relation_cost(scores, targets.relations_FMR.to(scores.dtype))

    predicted = torch.stack(
        (
            predictions.person_boxes_LFN4,
            predictions.object_boxes_LFN4,
            predictions.union_boxes_LFN4,
        )
    )[..., None, :]
    wanted = torch.stack(
        (
            targets.person_boxes_F4[:, None].expand_as(targets.object_boxes_FM4),
            targets.object_boxes_FM4,
            targets.union_boxes_FM4,
        )
    )[:, None, :, None].to(predicted.dtype)
    l1 = (predicted - wanted).abs().sum(-1)
    giou = generalized_iou(corners(predicted), corners(wanted))
    if boxes == "sum":
        l1, giou = l1.sum(0), giou.sum(0)
    else:
        l1, giou = l1[:2].amax(0), giou[:2].amin(0)
    return cost + COST_L1 * l1 - COST_GIOU * giou


def _relation_cost(scores_LFNR: Tensor, relations_FMR: Tensor) -> Tensor:
    """QPIC's: minus the mean of (mean score of labels that hold, mean 1 - score of the others)."""
    present = relations_FMR / (relations_FMR.sum(-1, keepdim=True) + 1e-4)
    absent = 1 - relations_FMR
    absent = absent / (absent.sum(-1, keepdim=True) + 1e-4)
    hits = scores_LFNR @ present.transpose(-1, -2)
    return -(hits + (1 - scores_LFNR) @ absent.transpose(-1, -2)) / 2
