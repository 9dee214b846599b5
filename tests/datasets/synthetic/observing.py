"""What an observer of limited memory predicts, to be measured as a model is."""

import numpy as np

from datasets.scoring.prediction import FramePrediction
from datasets.synthetic.observers import triplet_weights


def observe(script, memory, part=False):
    """Return a prediction for each frame, with the weights as scores of the relations.

    The measure does the rest: ``with`` picks the best relation of each group and ``no`` any.
    """
    predictions = []
    weights_TMR = triplet_weights(script, memory, part)
    for target, weights_MR, visible_M in zip(
        script.targets(), weights_TMR, script.visible_TM, strict=True
    ):
        person_1, objects = target.person_box_4[None], len(target.object_classes_M)
        boxes = np.repeat(person_1, objects, axis=0), target.object_boxes_M4
        scores = np.ones(objects), np.ones(objects), weights_MR[visible_M]
        predictions.append(FramePrediction(*boxes, target.object_classes_M, *scores))
    return predictions
