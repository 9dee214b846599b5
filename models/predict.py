"""Conversion of the network's outputs to the pairs that the measure scores.

B blocks, T slots, F valid frames, N queries, K object classes, R relations.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.ops import box_convert

from bload.batch.trees import to_device
from datasets.scoring.prediction import FramePrediction
from models.outputs import Outputs, relation_scores


@torch.no_grad()
def predict(
    outputs: Outputs, valid_BT: Tensor, sizes_hw: Sequence[tuple[int, int]]
) -> list[FramePrediction]:
    """Turn the last layer into predictions: every query of every valid frame proposes one pair.

    The object's class is the likeliest one besides "no object", its score that probability. The
    person's score is 1: every labelled frame shows the person, so there is nothing to learn. Boxes
    are clamped to the frame.

    Args:
        valid_BT: bool.
        sizes_hw: native (height, width) of the valid frames, in the order of
            ``valid_BT.flatten()``.
    """
    device = outputs.class_logits_LBTNK.device
    frame_F = to_device(valid_BT.flatten().nonzero().squeeze(1), device)

    def select_last_layer(field: Tensor) -> Tensor:
        return field[-1].flatten(0, 1).index_select(0, frame_F)

    scale_F4 = torch.tensor([(w, h, w, h) for h, w in sizes_hw], dtype=torch.float32)
    scale_F14 = scale_F4.reshape(-1, 1, 4)  # 4 also without a frame
    persons_FN4, objects_FN4 = (
        box_convert(select_last_layer(boxes), "cxcywh", "xyxy").clamp(0, 1).float().cpu()
        * scale_F14
        for boxes in (outputs.person_boxes_LBTN4, outputs.object_boxes_LBTN4)
    )
    probability_FNK = select_last_layer(outputs.class_logits_LBTNK).softmax(-1).float()
    score_FN, class_FN = probability_FNK[..., 1:].max(-1)
    relation_FNR = relation_scores(select_last_layer(outputs.relation_logits_LBTNR)).float()
    fields = persons_FN4, objects_FN4, class_FN + 1, torch.ones_like(score_FN), score_FN
    arrays = (field.cpu().numpy() for field in (*fields, relation_FNR))
    return [FramePrediction(*frame) for frame in zip(*arrays, strict=True)]
