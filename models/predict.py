"""From the network's outputs to the pairs that the measure scores.

B blocks, T slots, F valid frames, N queries, K object classes, R relations.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_convert

from datasets.scoring.prediction import FramePrediction
from models.outputs import Outputs, relation_scores, valid_frames


@torch.no_grad()
def predict(
    outputs: Outputs, valid_BT: Tensor, sizes_hw: Sequence[tuple[int, int]]
) -> list[FramePrediction]:
    """Turn the last layer into predictions: every query of every valid frame proposes one pair.

    The object's class is the likeliest one besides "no object", its score that probability; the
    person's score is 1, since every frame that counts shows the person and nothing is learned about
    it. Boxes are clamped to the frame.

    `sizes_hw` are the native (height, width) of the valid frames, in the order of
    ``valid_BT.flatten()``; raises `InputError` if there are not as many.
    """
    frame_F = valid_frames(valid_BT, len(sizes_hw), "sizes")
    if not sizes_hw:
        return []

    def last(field: Tensor) -> Tensor:
        return field[-1].flatten(0, 1).index_select(0, frame_F)

    scale_F14 = torch.tensor([(w, h, w, h) for h, w in sizes_hw], dtype=torch.float32)[:, None]

    def pixels(boxes: Tensor) -> Tensor:
        corners = box_convert(boxes, "cxcywh", "xyxy").clamp(0, 1)
        return corners.float().cpu() * scale_F14

    persons_FN4 = pixels(last(outputs.person_boxes_LBTN4)).numpy()
    objects_FN4 = pixels(last(outputs.object_boxes_LBTN4)).numpy()
    probability = last(outputs.class_logits_LBTNK).softmax(-1)[..., 1:].float()
    scores_FN, classes_FN = (tensor.cpu().numpy() for tensor in probability.max(-1))
    relations_FNR = relation_scores(last(outputs.relation_logits_LBTNR)).float().cpu().numpy()
    return [
        FramePrediction(
            person_boxes_P4=persons_FN4[frame],
            object_boxes_P4=objects_FN4[frame],
            object_classes_P=classes_FN[frame] + 1,
            person_scores_P=np.ones_like(scores_FN[frame]),
            object_scores_P=scores_FN[frame],
            relation_scores_PR=relations_FNR[frame],
        )
        for frame in range(len(sizes_hw))
    ]
