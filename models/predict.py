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


@torch.no_grad()
def predict(
    outputs: Outputs, valid_BT: Tensor, sizes_hw: Sequence[tuple[int, int]]
) -> Callable[[], list[FramePrediction]]:
    """Turn the last layer into predictions: every query of every valid frame proposes one pair.

    The object's class is the likeliest one besides "no object", its score that probability. The
    person's score is 1: every labelled frame shows the person, so there is nothing to learn. Boxes
    are clamped to the frame.

    Args:
        valid_BT: bool; on the host, only the returned function synchronises with the device.
        sizes_hw: native (height, width) of the valid frames, in the order of
            ``valid_BT.flatten()``.

    Returns:
        A function that makes the predictions, in any thread. All torch work is done or queued on
        the device before.

    Raises:
        InputError: there are not as many sizes as valid frames.
    """
    frame_F = valid_frames(valid_BT, len(sizes_hw), "sizes")
    device = outputs.class_logits_LBTNK.device
    frame_F = to_device(frame_F, device)

    def select_last_layer(field: Tensor) -> Tensor:
        return field[-1].flatten(0, 1).index_select(0, frame_F)

    score_FN, class_FN = (
        select_last_layer(outputs.class_logits_LBTNK).softmax(-1)[..., 1:].float().max(-1)
    )
    fields = (
        *(
            box_convert(select_last_layer(boxes), "cxcywh", "xyxy").clamp(0, 1).float()
            for boxes in (outputs.person_boxes_LBTN4, outputs.object_boxes_LBTN4)
        ),
        class_FN + 1,
        torch.ones_like(score_FN),
        score_FN,
        relation_scores(select_last_layer(outputs.relation_logits_LBTNR)).float(),
    )
    # Into pinned memory, so that the copies do not synchronise.
    host_tensors = [tensor.to("cpu", non_blocking=True) for tensor in fields]
    copy_event = torch.cuda.Event(blocking=True) if device.type == "cuda" else None
    if copy_event:
        copy_event.record(torch.cuda.current_stream(device))

    def finish() -> list[FramePrediction]:
        if copy_event:
            copy_event.synchronize()
        persons_FN4, objects_FN4, *other_arrays = (tensor.numpy() for tensor in host_tensors)
        scale_F14 = np.array([(w, h, w, h) for h, w in sizes_hw], np.float32).reshape(-1, 1, 4)
        frames = zip(persons_FN4 * scale_F14, objects_FN4 * scale_F14, *other_arrays, strict=True)
        return [FramePrediction(*arrays) for arrays in frames]

    return finish
