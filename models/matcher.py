"""Assignment of queries to objects: Hungarian matching frame by frame.

L layers, F valid frames, N queries, M objects (padded), P matched pairs of one layer, K object
classes, R relations.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from bload.batch.trees import to_device
from bload.errors import InputError
from datasets.annotations.vocabulary import RELATIONS
from models.outputs import CLASSES, relation_scores
from models.targets import TargetTensors

COST_CLASS, COST_RELATION, COST_L1, COST_GIOU = 1.0, 1.0, 2.5, 1.0
BOXES = slice(0, 12)
CLASS_LOGITS = slice(BOXES.stop, BOXES.stop + CLASSES)
RELATION_LOGITS = slice(CLASS_LOGITS.stop, CLASS_LOGITS.stop + len(RELATIONS))


@dataclass(frozen=True, slots=True)
class ValidOutputs:
    """The network's outputs at the valid frames, in one tensor, so that one copy selects from all.

    Channels C are the coordinates of person, object and union box, then the logits of classes and
    relations, as in `models.outputs.Outputs`.
    """

    outputs_LFNC: Tensor

    @property
    def boxes(self) -> Tensor:
        """Person, object and union boxes, ``(3, L, F, N, 4)``."""
        return self.outputs_LFNC[..., BOXES].unflatten(-1, (3, 4)).movedim(-2, 0)

    @property
    def class_logits_LFNK(self) -> Tensor:
        return self.outputs_LFNC[..., CLASS_LOGITS]

    @property
    def relation_logits_LFNR(self) -> Tensor:
        return self.outputs_LFNC[..., RELATION_LOGITS]


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, P per layer: in frame ``frame_P``, query ``query_LP`` is for object ``object_LP``.

    P is the same in every layer: a frame gives as many pairs as it has objects, or queries if
    those are fewer.
    """

    frame_P: Tensor
    object_LP: Tensor
    query_LP: Tensor

    @property
    def query_index(self) -> tuple[Tensor, Tensor, Tensor]:
        """Index of the matched queries, ``(L, P)`` of ``(L, F, N, ...)``."""
        layer_L1 = torch.arange(len(self.query_LP), device=self.query_LP.device)[:, None]
        return layer_L1, self.frame_P, self.query_LP

    @property
    def object_index(self) -> tuple[Tensor, Tensor]:
        """Index of the matched objects, ``(L, P)`` of ``(F, M, ...)``."""
        return self.frame_P, self.object_LP


@torch.no_grad()
def match(outputs: ValidOutputs, targets: TargetTensors, match_boxes: str) -> Matches:
    """Match all layers of all frames, with one copy from device to host.

    `match_boxes` as in `matching_cost`.

    Raises:
        InputError: a cost is not finite, since the training has diverged.
    """
    cost_LFMN = matching_cost(outputs, targets, match_boxes).cpu().numpy()
    max_objects, queries = cost_LFMN.shape[2:]
    # Padded rows are always finite, so one look at everything is enough.
    if not np.isfinite(cost_LFMN).all():
        nonfinite = np.count_nonzero(~np.isfinite(cost_LFMN))
        raise InputError(
            f"{nonfinite} of {cost_LFMN.size} matching costs are not finite: the training has "
            f"diverged; lower the learning rate or the clipping norm, or train in float32"
        )
    objects_F = np.array(targets.objects, np.int64)
    pairs_F = np.minimum(objects_F, queries)
    first_F = np.cumsum(pairs_F) - pairs_F
    frame_P, object_P = np.nonzero(np.arange(max_objects) < pairs_F[:, None])
    # If the objects of a frame like different queries best, no other assignment costs less.
    best_LFM = cost_LFMN.argmin(-1)
    best_LP = best_LFM[:, frame_P, object_P]
    assignment = np.stack((np.broadcast_to(object_P, best_LP.shape), best_LP))
    distinct_M = -1 - np.arange(max_objects)
    best_LFM = np.sort(np.where(np.arange(max_objects) < objects_F[:, None], best_LFM, distinct_M))
    for layer, frame in np.argwhere((best_LFM[..., 1:] == best_LFM[..., :-1]).any(-1)):
        pairs = slice(first_F[frame], first_F[frame] + pairs_F[frame])
        # Objects are the rows: they are few, and come back in order.
        cost_MN = cost_LFMN[layer, frame, : objects_F[frame]]
        assignment[:, layer, pairs] = linear_sum_assignment(cost_MN)
    device = outputs.outputs_LFNC.device
    objects_LP, queries_LP = to_device(torch.from_numpy(assignment), device).unbind()
    frames_P = to_device(torch.from_numpy(frame_P), device)
    return Matches(frame_P=frames_P, object_LP=objects_LP, query_LP=queries_LP)


def matching_cost(outputs: ValidOutputs, targets: TargetTensors, match_boxes: str) -> Tensor:
    """Return the cost of query n answering for object m, ``(L, F, M, N)``.

    Object class and relations count by their scores, boxes by L1 and generalised IoU. ``worst``
    takes the worse of person and object box, as QPIC does (arXiv 2103.05399), ``sum`` the sum of
    person, object and union box. In a network from scratch the worse box is the person's, equally
    bad in all queries; the sum lets the object's box decide from the first step on.
    """
    # Queries lie side by side in memory: operations on short last dimensions are slow.
    predicted = outputs.boxes.movedim(-1, 0).contiguous()[..., None, :]
    target_boxes = targets.boxes_FM34.to(predicted.dtype).permute(3, 2, 0, 1)[:, :, None, ..., None]
    l1, giou = box_distances(predicted, target_boxes)
    if match_boxes == "sum":
        l1, giou = l1.sum(0), giou.sum(0)
    else:
        l1, giou = l1[:2].amax(0), giou[:2].amin(0)
    probability_LFKN = outputs.class_logits_LFNK.softmax(-1).mT
    classes = targets.classes_FM[None, ..., None].expand_as(l1)
    cost = (COST_L1 * l1).sub_(giou, alpha=COST_GIOU)
    cost.sub_(probability_LFKN.gather(2, classes), alpha=COST_CLASS)
    scores_LFNR = relation_scores(outputs.relation_logits_LFNR)
    relations_FMR = targets.relations_FMR.to(scores_LFNR.dtype)
    return cost.add_(_relation_cost(scores_LFNR.mT, relations_FMR), alpha=COST_RELATION)


def _relation_cost(scores_LFRN: Tensor, relations_FMR: Tensor) -> Tensor:
    """Return QPIC's: minus the mean of (mean score of true labels, mean 1 - score of others)."""
    count_FM1 = relations_FMR.sum(-1, keepdim=True)
    present = relations_FMR / (count_FM1 + 1e-4)
    absent = (1 - relations_FMR) / (len(RELATIONS) + 1e-4 - count_FM1)
    return ((absent - present) @ scores_LFRN - absent.sum(-1, keepdim=True)) / 2


def box_distances(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return L1 distance and generalised IoU (-1..1) of boxes (cx, cy, w, h), ``(4, ...)``.

    Boxes broadcast; those without area give finite values. No corners are needed: along an axis two
    boxes share half the sum of their sizes less the distance of their centres, or the smaller size
    if one lies within the other, and their hull is the sum of their sizes less what they share.
    Source: arXiv 1902.09630.
    """
    tiny = torch.finfo(first.dtype).tiny ** 0.5
    abs_diff = (first - second).abs()
    centre_diff, size_diff = abs_diff.split(2)
    size1, size2 = first[2:], second[2:]
    size_sum = size1 + size2
    overlap = size_sum / 2 - torch.maximum(centre_diff, size_diff / 2)
    width, height = torch.stack((overlap.clamp(min=0), size_sum - overlap), dim=1).unbind()
    inside, hull = (width * height).unbind()
    union = size1[0] * size1[1] + size2[0] * size2[1] - inside
    return abs_diff.sum(0), inside / union.clamp(min=tiny) + union / hull.clamp(min=tiny) - 1
