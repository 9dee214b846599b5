"""Losses: sums over valid frames, divided by numbers of targets over all ranks.

L layers, F valid frames, N queries, M objects, P matched pairs of one layer, K object classes, R
relations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bload.batch.trees import to_device
from bload.errors import InputError
from datasets.annotations.vocabulary import ATTENTION
from models.dense import dense_loss
from models.matcher import Matches, ValidOutputs, box_distances, match
from models.outputs import CLASSES, LABELS, Outputs
from models.targets import TargetTensors

WEIGHT_CLASS, WEIGHT_L1, WEIGHT_GIOU = 1.0, 2.5, 1.0
NO_OBJECT = 0.1
"""Weight of a query that should predict "no object"."""


def loss_divisors(objects: Sequence[int], queries: int) -> Tensor:
    """Return divisors of the losses, float64: ``[matched pairs, class weights of all queries]``.

    They depend only on the number of objects of each valid frame, so they can be summed over the
    batches of a step and over ranks before the first forward pass.
    """
    pairs = sum(min(count, queries) for count in objects)
    idle = queries * len(objects) - pairs
    return torch.tensor([pairs, pairs + NO_OBJECT * idle], dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Criterion:
    """Set-prediction losses on every layer, after DETR and QPIC.

    Object class by cross-entropy; person, object and union box by L1 and generalised IoU; the
    attention relation by cross-entropy over 3, the others by sigmoid focal loss (gamma 2, holding
    and absent labels weighted alike, as in QPIC).
    """

    relation_weight: float
    """Weight of both relation losses; 1 in QPIC, 2 in OED."""
    match_boxes: str
    """``worst`` (QPIC's) or ``sum``, see `models.matcher.matching_cost`."""

    def __call__(
        self, outputs: Outputs, targets: TargetTensors, valid_BT: Tensor, divisors: Tensor
    ) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            outputs: of every slot.
            targets: of the F valid frames, in the order of ``valid_BT.flatten()``.
            valid_BT: bool, False on padding; on the host, reading it does not synchronise.
            divisors: `loss_divisors` summed over all batches of the step and all ranks, on the
                host.

        Returns:
            ``loss``, the sum of all parts over all layers, and the parts of the last layer:
            ``class``, ``l1``, ``giou``, ``attention``, ``labels``, and ``dense`` if the model has
            that task and is training. Without a valid frame all are zero, and every parameter still
            gets a zero gradient.

        Raises:
            InputError: targets and valid frames differ in number, or the training has diverged.
        """
        valid_outputs = select_valid(outputs, valid_BT, len(targets.objects))
        matches = match(valid_outputs, targets, self.match_boxes)
        matched_outputs = ValidOutputs(valid_outputs.outputs_LFNC[matches.query_index][:, None])
        pairs, class_weight = divisors.clamp(min=1).tolist()
        relation_weight = self.relation_weight / pairs
        factors = {
            "class": WEIGHT_CLASS / class_weight,
            "l1": WEIGHT_L1 / pairs,
            "giou": WEIGHT_GIOU / pairs,
            "attention": relation_weight,
            "labels": relation_weight,
        }
        sums = (
            class_loss(valid_outputs, targets, matches),
            *box_losses(matched_outputs, targets, matches),
            *relation_losses(matched_outputs, targets, matches),
        )
        weighted = zip(sums, factors.values(), strict=True)
        parts_5L = torch.stack([sum_L * factor for sum_L, factor in weighted])
        parts = dict(zip(factors, parts_5L[:, -1].unbind(), strict=True))
        loss = parts_5L.sum()
        if outputs.dense_logits_BTHWE is not None:
            dense = dense_loss(outputs.dense_logits_BTHWE, targets, valid_BT, outputs.extent_BT2)
            parts["dense"] = dense / pairs
            loss = loss + parts["dense"]
        return {"loss": loss, **parts}


def select_valid(outputs: Outputs, valid_BT: Tensor, frames: int) -> ValidOutputs:
    """Take the valid frames out of the outputs, in the order of ``valid_BT.flatten()``."""
    frame_F = valid_BT.flatten().nonzero().squeeze(1)
    if len(frame_F) != frames:
        raise InputError(
            f"valid_BT marks {len(frame_F)} frames but there are {frames} targets; give as many"
        )
    fields = (
        outputs.person_boxes_LBTN4,
        outputs.object_boxes_LBTN4,
        outputs.union_boxes_LBTN4,
        outputs.class_logits_LBTNK,
        outputs.relation_logits_LBTNR,
    )
    outputs_LFNC = torch.cat(fields, dim=-1).flatten(1, 2)
    if frames < outputs_LFNC.shape[1]:
        outputs_LFNC = outputs_LFNC.index_select(1, to_device(frame_F, outputs_LFNC.device))
    return ValidOutputs(outputs_LFNC)


def class_loss(valid_outputs: ValidOutputs, targets: TargetTensors, matches: Matches) -> Tensor:
    """Sum the weighted cross-entropy of every query over frames, ``(L,)``."""
    logits_LFNK = valid_outputs.class_logits_LFNK
    target_LFN = torch.zeros(logits_LFNK.shape[:3], dtype=torch.long, device=logits_LFNK.device)
    target_LFN[matches.query_index] = targets.classes_FM[matches.object_index]
    weight_K = logits_LFNK.new_ones(CLASSES)
    weight_K[:1] = NO_OBJECT  # a fill; writing one element would synchronise
    loss = F.cross_entropy(
        logits_LFNK.flatten(0, 2), target_LFN.flatten(), weight=weight_K, reduction="none"
    )
    return loss.view(target_LFN.shape).sum((1, 2))


def box_losses(
    matched_outputs: ValidOutputs, targets: TargetTensors, matches: Matches
) -> tuple[Tensor, Tensor]:
    """Sum L1 and 1 - GIoU of person, object and union box over pairs, ``(L,)`` each."""
    predicted = matched_outputs.boxes.squeeze(2).movedim(-1, 0)
    target_boxes = targets.boxes_FM34[matches.object_index].to(predicted.dtype).permute(3, 2, 0, 1)
    l1, giou = box_distances(predicted, target_boxes)
    return l1.sum((0, 2)), (1 - giou).sum((0, 2))


def relation_losses(
    matched_outputs: ValidOutputs, targets: TargetTensors, matches: Matches
) -> tuple[Tensor, Tensor]:
    """Sum cross-entropy over attention and focal loss over the other labels, ``(L,)`` each.

    A pair without an attention label adds nothing to the first. A query without a pair adds nothing
    at all, since annotations are not exhaustive (OED found 37.7 against 30.3 Recall@20).
    """
    logits = matched_outputs.relation_logits_LFNR.squeeze(1)
    target_labels = targets.relations_FMR[matches.object_index].to(logits.dtype)
    log_attention = logits[..., ATTENTION].log_softmax(-1)
    attention = -(target_labels[..., ATTENTION] * log_attention).sum((1, 2))
    logits, target_labels = logits[..., LABELS], target_labels[..., LABELS]
    # The logit of the wrong answer: its softplus is the cross-entropy, its sigmoid the focus.
    wrong_logit = logits * (1 - 2 * target_labels)
    labels = F.softplus(wrong_logit) * wrong_logit.sigmoid().square()
    return attention, labels.flatten(1).sum(1)
