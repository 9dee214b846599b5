"""Conversion of the network's outputs to the pairs that the measure scores.

B blocks, T slots, F valid frames, N queries, K object classes, R relations.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_convert

from bload.batch.trees import to_device
from datasets.scoring.prediction import FramePrediction
from models.outputs import Outputs, relation_scores, valid_frames


def predict(
    outputs: Outputs, valid_BT: Tensor, sizes_hw: Sequence[tuple[int, int]]
) -> list[FramePrediction]:
    """Turn the last layer into predictions: every query of every valid frame proposes one pair.

    The object's class is the likeliest one besides "no object", its score that probability. The
    person's score is 1: every labelled frame shows the person, so there is nothing to learn. Boxes
    are clamped to the frame.

    `sizes_hw` are the native (height, width) of the valid frames, in the order of
    ``valid_BT.flatten()``; raises `InputError` if there are not as many.
    """
    return predict_later(outputs, valid_BT, sizes_hw)()


@torch.no_grad()
def predict_later(
    outputs: Outputs, valid_BT: Tensor, sizes_hw: Sequence[tuple[int, int]]
) -> Callable[[], list[FramePrediction]]:
    """Like `predict`, but return a function that makes the predictions, in any thread.

    All torch work is done or queued on the device now. With `valid_BT` on the host, only the
    function waits for the device.
    """
    frame_F = valid_frames(valid_BT, len(sizes_hw), "sizes")
    device = outputs.class_logits_LBTNK.device
    frame_F = to_device(frame_F, device)

    def last(field: Tensor) -> Tensor:
        return field[-1].flatten(0, 1).index_select(0, frame_F)

    score_FN, class_FN = last(outputs.class_logits_LBTNK).softmax(-1)[..., 1:].float().max(-1)
    made = (
        *(
            box_convert(last(boxes), "cxcywh", "xyxy").clamp(0, 1).float()
            for boxes in (outputs.person_boxes_LBTN4, outputs.object_boxes_LBTN4)
        ),
        class_FN + 1,
        torch.ones_like(score_FN),
        score_FN,
        relation_scores(last(outputs.relation_logits_LBTNR)).float(),
    )
    hosted = [tensor.to("cpu", non_blocking=True) for tensor in made]  # pinned: they do not wait
    arrived = torch.cuda.Event(blocking=True) if device.type == "cuda" else None
    if arrived:
        arrived.record(torch.cuda.current_stream(device))

    def finish() -> list[FramePrediction]:
        if arrived:
            arrived.synchronize()
        persons_FN4, objects_FN4, *rest = (tensor.numpy() for tensor in hosted)
        scale_F14 = np.array([(w, h, w, h) for h, w in sizes_hw], np.float32).reshape(-1, 1, 4)
        frames = zip(persons_FN4 * scale_F14, objects_FN4 * scale_F14, *rest, strict=True)
        return [FramePrediction(*arrays) for arrays in frames]

    return finish
