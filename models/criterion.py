"""The losses, as sums over valid frames divided by counts over all ranks.

L layers, F valid frames, N queries, M objects, P matched pairs of one layer, K object classes,
R relations.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import sigmoid_focal_loss

from datasets.annotations.vocabulary import ATTENTION
from models.dense import dense_loss
from models.matcher import Matches, Predictions, generalized_iou, match
from models.outputs import CLASSES, LABELS, Outputs, valid_frames
from models.targets import Targets

WEIGHT_CLASS, WEIGHT_L1, WEIGHT_GIOU = 1.0, 2.5, 1.0
NO_OBJECT = 0.1
"""Weight of a query that should predict "no object"."""


def counts(objects: Sequence[int], queries: int) -> Tensor:
    """Divisors of the losses, float64: ``[matched pairs, class weights of all queries]``.

    They follow from the numbers of objects of each valid frame alone, so that they can be summed
    over the batches of a step and over ranks before the first forward pass.
    """
    pairs = sum(min(count, queries) for count in objects)
    idle = queries * len(objects) - pairs
    return torch.tensor([pairs, pairs + NO_OBJECT * idle], dtype=torch.float64)


class Criterion(nn.Module):
    """Set-prediction losses on every layer, after DETR and QPIC.

    Object class by cross-entropy; person, object and union box by L1 and generalised IoU; the
    attention relation by cross-entropy over 3, the others by sigmoid focal loss (gamma 2, holding
    and absent labels weighted alike, as in QPIC).

    Args:
        relations_on: ``matched`` queries only, since the data are not annotated exhaustively
            (OED found 37.7 against 30.3 Recall@20), or ``all``, where unmatched queries
            should predict that no spatial or contacting relation holds.
        relation_weight: weight of both relation losses; 1 in QPIC, 2 in OED.
        match_boxes: ``worst`` (QPIC's) or ``sum``, see `models.matcher.matching_cost`.
    """

    def __init__(
        self,
        relations_on: str = "matched",
        relation_weight: float = 1.0,
        match_boxes: str = "worst",
    ) -> None:
        super().__init__()
        self.relations_on = relations_on
        self.relation_weight = relation_weight
        self.match_boxes = match_boxes

    def forward(
        self, outputs: Outputs, targets: Targets, valid_BT: Tensor, counts: Tensor
    ) -> dict[str, Tensor]:
        """Losses of a batch.

        Args:
            outputs: of every slot.
            targets: of the F valid frames, in the order of ``valid_BT.flatten()``.
            valid_BT: bool, False on padding.
            counts: `counts` summed over all batches of the step, on all ranks.

        Returns:
            ``loss``, the sum of all parts over all layers, and the parts of the last layer:
            ``class``, ``l1``, ``giou``, ``attention``, ``labels``, and ``dense`` if the model has
            that task and is training. With no valid frame all are zero, and every parameter still
            gets a (zero) gradient.

        Raises:
            InputError: there are not as many targets as valid frames, or the training has diverged.
        """
        predictions = select(outputs, valid_BT, len(targets.objects))
        matches = match(predictions, targets, self.match_boxes)
        pairs, class_weight = counts.to(valid_BT.device).clamp(min=1).unbind()
        l1_L, giou_L = box_losses(predictions, targets, matches)
        attention_L, labels_L = relation_losses(
            predictions, targets, matches, everywhere=self.relations_on == "all"
        )
        parts_L = {
            "class": WEIGHT_CLASS * class_loss(predictions, targets, matches) / class_weight,
            "l1": WEIGHT_L1 * l1_L / pairs,
            "giou": WEIGHT_GIOU * giou_L / pairs,
            "attention": self.relation_weight * attention_L / pairs,
            "labels": self.relation_weight * labels_L / pairs,
        }
        if outputs.dense_logits_BTHWE is not None:
            dense = dense_loss(outputs.dense_logits_BTHWE, targets, valid_BT, outputs.extent_BT2)
            parts_L["dense"] = (dense / pairs)[None]
        total = torch.cat(tuple(parts_L.values())).sum()
        return {"loss": total, **{name: part_L[-1] for name, part_L in parts_L.items()}}


def select(outputs: Outputs, valid_BT: Tensor, frames: int) -> Predictions:
    """Take the valid frames out of the outputs, in the order of ``valid_BT.flatten()``."""
    frame_F = valid_frames(valid_BT, frames, "targets")

    def take(field: Tensor) -> Tensor:
        return field.flatten(1, 2).index_select(1, frame_F)

    return Predictions(
        person_boxes_LFN4=take(outputs.person_boxes_LBTN4),
        object_boxes_LFN4=take(outputs.object_boxes_LBTN4),
        class_logits_LFNK=take(outputs.class_logits_LBTNK),
        union_boxes_LFN4=take(outputs.union_boxes_LBTN4),
        relation_logits_LFNR=take(outputs.relation_logits_LBTNR),
    )


def class_loss(predictions: Predictions, targets: Targets, matches: Matches) -> Tensor:
    """Weighted cross-entropy of every query, summed over frames, ``(L,)``."""
    logits_LFNK = predictions.class_logits_LFNK
    wanted_LFN = torch.zeros(logits_LFNK.shape[:3], dtype=torch.long, device=logits_LFNK.device)
    wanted_LFN[matches.answers] = targets.classes_FM[matches.objects]
    weight_K = logits_LFNK.new_ones(CLASSES)
    weight_K[0] = NO_OBJECT
    loss = F.cross_entropy(
        logits_LFNK.flatten(0, 2), wanted_LFN.flatten(), weight=weight_K, reduction="none"
    )
    return loss.view(wanted_LFN.shape).sum((1, 2))


def box_losses(
    predictions: Predictions, targets: Targets, matches: Matches
) -> tuple[Tensor, Tensor]:
    """L1 and 1 - GIoU of person, object and union box, summed over pairs, ``(L,)`` each."""
    predicted = torch.stack([boxes[matches.answers] for boxes in predictions.boxes], dim=1)
    wanted = torch.stack([boxes[matches.objects] for boxes in targets.boxes], dim=1)
    wanted = wanted.to(predicted.dtype)
    l1 = (predicted - wanted).abs().sum((1, 2, 3))
    return l1, (1 - generalized_iou(predicted, wanted)).sum((1, 2))


def relation_losses(
    predictions: Predictions, targets: Targets, matches: Matches, everywhere: bool
) -> tuple[Tensor, Tensor]:
    """Cross-entropy over attention and focal loss over the other labels, ``(L,)`` each.

    A pair without an attention label adds nothing to the first. `everywhere` takes the focal loss
    of unmatched queries too.
    """
    logits = predictions.relation_logits_LFNR[matches.answers]
    wanted = targets.relations_FMR[matches.objects].to(logits.dtype)
    attention = -(wanted[..., ATTENTION] * logits[..., ATTENTION].log_softmax(-1)).sum((1, 2))
    logits, wanted = logits[..., LABELS], wanted[..., LABELS]
    if everywhere:
        matched = wanted
        logits = predictions.relation_logits_LFNR[..., LABELS]
        wanted = torch.zeros_like(logits)
        wanted[matches.answers] = matched
    labels = sigmoid_focal_loss(logits, wanted, alpha=-1, gamma=2.0)
    return attention, labels.flatten(1).sum(1)
