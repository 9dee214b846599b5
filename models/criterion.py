"""The losses, as sums over valid frames divided by counts over all ranks.

L layers, F valid frames, N queries, M objects, P matched pairs of one layer, K object classes,
R relations.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import sigmoid_focal_loss

from bload.errors import InputError
from models.boxes import corners, generalized_iou
from models.dense import dense_loss
from models.matcher import Matches, Predictions, match
from models.outputs import ATTENTION, LABELS, OBJECT_CLASSES, Outputs
from models.targets import Targets

WEIGHT_CLASS, WEIGHT_L1, WEIGHT_GIOU = 1.0, 2.5, 1.0
NO_OBJECT = 0.1
"""Weight of a query that should say "no object"."""


def counts(targets: Targets, queries: int) -> Tensor:
    """What the losses are divided by: ``[matched pairs, class weights of all queries]``.

    It follows from the targets alone, so that it can be summed over ranks before the forward pass.
    """
    pairs = sum(min(count, queries) for count in targets.objects)
    idle = queries * len(targets.objects) - pairs
    return torch.tensor([pairs, pairs + NO_OBJECT * idle], dtype=torch.float64)


class Criterion(nn.Module):
    """Set-prediction losses on every layer, after DETR and QPIC.

    Object class by cross-entropy; person, object and union box by L1 and generalised IoU; the
    attention relation by cross-entropy over 3, the others by sigmoid focal loss (gamma 2, holding
    and absent labels weighted alike, as in QPIC).

    Args:
        relations_on: ``matched`` queries only, since the data are not annotated exhaustively
            (OED found 37.7 against 30.3 Recall@20), or ``all``, where unmatched queries
            should say that no spatial or contacting relation holds.
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
        if relations_on not in ("matched", "all"):
            raise InputError(
                f"relation losses cannot be on '{relations_on}' queries; "
                f"set loss.relations_on to matched or all"
            )
        if match_boxes not in ("worst", "sum"):
            raise InputError(
                f"boxes cannot be matched by their '{match_boxes}'; "
                f"set loss.match_boxes to worst or sum"
            )
        if not relation_weight > 0:
            raise InputError(f"loss.relation_weight is {relation_weight}; give more than 0")
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
            counts: `counts` summed over all ranks (and over the micro-batches of a step).

        Returns:
            ``loss``, the sum of all parts over all layers, and the parts of the last layer:
            ``class``, ``l1``, ``giou``, ``attention``, ``labels``, and ``dense`` if the model has
            that task and is training. With no valid frame all are
            zero, and every parameter still gets a (zero) gradient.
        """
        predictions = select(outputs, valid_BT, len(targets.objects))
        matches = match(predictions, targets, self.match_boxes)
        pairs, class_weight = counts.to(valid_BT.device).clamp(min=1).unbind()
        parts_L = {
            "class": WEIGHT_CLASS * class_loss(predictions, targets, matches) / class_weight,
        }
        l1_L, giou_L = box_losses(predictions, targets, matches)
        parts_L["l1"] = WEIGHT_L1 * l1_L / pairs
        parts_L["giou"] = WEIGHT_GIOU * giou_L / pairs
        attention_L, labels_L = relation_losses(
            predictions, targets, matches, everywhere=self.relations_on == "all"
        )
        parts_L["attention"] = self.relation_weight * attention_L / pairs
        parts_L["labels"] = self.relation_weight * labels_L / pairs
        if outputs.dense_logits_BTHWE is not None:
            dense = dense_loss(outputs.dense_logits_BTHWE, targets, valid_BT, outputs.extent_BT2)
            parts_L["dense"] = (dense / pairs)[None]
        total = torch.cat(tuple(parts_L.values())).sum()
        return {"loss": total, **{name: part_L[-1] for name, part_L in parts_L.items()}}


def select(outputs: Outputs, valid_BT: Tensor, frames: int) -> Predictions:
    """Take the valid frames out of the outputs, in the order of ``valid_BT.flatten()``."""
    frame_F = valid_BT.flatten().nonzero().squeeze(1)
    if len(frame_F) != frames:
        raise InputError(
            f"valid_BT marks {len(frame_F)} frames but there are targets for {frames}; "
            f"give one target for each valid frame"
        )

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
    layer, frame = _layers(matches), matches.frame_P
    wanted_LFN[layer, frame, matches.query_LP] = targets.classes_FM[frame, matches.object_LP]
    weight_K = logits_LFNK.new_ones(1 + OBJECT_CLASSES)
    weight_K[0] = NO_OBJECT
    loss = F.cross_entropy(
        logits_LFNK.flatten(0, 2), wanted_LFN.flatten(), weight=weight_K, reduction="none"
    )
    return loss.view(wanted_LFN.shape).sum((1, 2))


def box_losses(
    predictions: Predictions, targets: Targets, matches: Matches
) -> tuple[Tensor, Tensor]:
    """L1 and 1 - GIoU of person, object and union box, summed over pairs, ``(L,)`` each."""
    layer, frame = _layers(matches), matches.frame_P
    predicted = torch.stack(
        tuple(
            boxes[layer, frame, matches.query_LP]
            for boxes in (
                predictions.person_boxes_LFN4,
                predictions.object_boxes_LFN4,
                predictions.union_boxes_LFN4,
            )
        ),
        dim=1,
    )
    wanted = torch.stack(
        (
            targets.person_boxes_F4[frame].expand(len(layer), -1, -1),
            targets.object_boxes_FM4[frame, matches.object_LP],
            targets.union_boxes_FM4[frame, matches.object_LP],
        ),
        dim=1,
    ).to(predicted.dtype)
    l1 = (predicted - wanted).abs().sum((1, 2, 3))
    giou = generalized_iou(corners(predicted), corners(wanted))
    return l1, (1 - giou).sum((1, 2))


def relation_losses(
    predictions: Predictions, targets: Targets, matches: Matches, everywhere: bool
) -> tuple[Tensor, Tensor]:
    """Cross-entropy over attention and focal loss over the other labels, ``(L,)`` each.

    A pair without an attention label adds nothing to the first. `everywhere` takes the focal loss
    of unmatched queries too.
    """
    layer, frame = _layers(matches), matches.frame_P
    logits = predictions.relation_logits_LFNR[layer, frame, matches.query_LP]
    wanted = targets.relations_FMR[frame, matches.object_LP].to(logits.dtype)
    attention = -(wanted[..., ATTENTION] * logits[..., ATTENTION].log_softmax(-1)).sum((1, 2))
    logits, wanted = logits[..., LABELS], wanted[..., LABELS]
    if everywhere:
        matched = wanted
        logits = predictions.relation_logits_LFNR[..., LABELS]
        wanted = torch.zeros_like(logits)
        wanted[layer, frame, matches.query_LP] = matched
    labels = sigmoid_focal_loss(logits, wanted, alpha=-1, gamma=2.0)
    return attention, labels.flatten(1).sum(1)


def _layers(matches: Matches) -> Tensor:
    """Index of the layers, to broadcast against ``(L, P)``."""
    return torch.arange(len(matches.query_LP), device=matches.query_LP.device)[:, None]
