"""Assignment of queries to objects: Hungarian matching frame by frame.

L layers, F valid frames, N queries, M objects (padded), P matched pairs of one layer, K object
classes, R relations.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torchvision.ops import box_convert

from bload.errors import InputError
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

    @property
    def boxes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Person, object and union boxes."""
        return self.person_boxes_LFN4, self.object_boxes_LFN4, self.union_boxes_LFN4


@dataclass(frozen=True, slots=True)
class Matches:
    """P pairs per layer: in frame ``frame_P``, query ``query_LP`` answers for object ``object_LP``.

    P is the same in every layer: a frame gives as many pairs as it has objects, or queries if
    those are fewer.
    """

    frame_P: Tensor
    object_LP: Tensor
    query_LP: Tensor

    @property
    def answers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Index of the matched queries, ``(L, P)`` of ``(L, F, N, ...)``."""
        layer_L1 = torch.arange(len(self.query_LP), device=self.query_LP.device)[:, None]
        return layer_L1, self.frame_P, self.query_LP

    @property
    def objects(self) -> tuple[Tensor, Tensor]:
        """Index of the matched objects, ``(L, P)`` of ``(F, M, ...)``."""
        return self.frame_P, self.object_LP


@torch.no_grad()
def match(predictions: Predictions, targets: Targets, boxes: str = "worst") -> Matches:
    """Match all layers of all frames, with one copy from device to host.

    `boxes` as in `matching_cost`.

    Raises:
        InputError: a cost is not a number; the training has diverged.
    """
    cost_LFNM = matching_cost(predictions, targets, boxes).cpu().numpy()
    layers, _, queries, _ = cost_LFNM.shape
    # Padded rows are finite whatever they hold, so one look at everything is enough.
    if not np.isfinite(cost_LFNM).all():
        bad = np.count_nonzero(~np.isfinite(cost_LFNM))
        raise InputError(
            f"{bad} of {cost_LFNM.size} matching costs are not finite: the training has diverged; "
            f"lower the learning rate or the clipping norm, or train in float32"
        )
    pairs_F = [min(count, queries) for count in targets.objects]
    frames = np.repeat(np.arange(len(pairs_F)), pairs_F)
    chosen = np.empty((2, layers, len(frames)), np.int64)
    first = 0
    for frame, (count, pairs) in enumerate(zip(targets.objects, pairs_F, strict=True)):
        last = first + pairs
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

    Object class and relations count by their scores, boxes by L1 and generalised IoU. For these,
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

    predicted = torch.stack(predictions.boxes)[..., None, :]
    wanted = torch.stack(targets.boxes)[:, None, :, None].to(predicted.dtype)
    l1 = (predicted - wanted).abs().sum(-1)
    giou = generalized_iou(predicted, wanted)
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


def generalized_iou(first: Tensor, second: Tensor) -> Tensor:
    """Generalised IoU of boxes (cx, cy, w, h) ``(..., 4)``, in -1..1, with broadcasting.

    Boxes without area give a finite value. torchvision's pairwise function takes one picture at a
    time, and its elementwise loss indexes by a mask, which makes the host wait for the device.
    Source: arXiv 1902.09630.
    """
    tiny = torch.finfo(first.dtype).tiny ** 0.5

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp(min=0).prod(-1)

    low1, high1 = box_convert(first, "cxcywh", "xyxy").split(2, dim=-1)
    low2, high2 = box_convert(second, "cxcywh", "xyxy").split(2, dim=-1)
    inside = area(torch.maximum(low1, low2), torch.minimum(high1, high2))
    union = area(low1, high1) + area(low2, high2) - inside
    hull = area(torch.minimum(low1, low2), torch.maximum(high1, high2))
    return inside / union.clamp(min=tiny) - (hull - union) / hull.clamp(min=tiny)
