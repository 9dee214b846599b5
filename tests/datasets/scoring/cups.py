"""Frames of one cup, which the measure's figures can be counted on by hand."""

import numpy as np

from datasets.annotations.targets import FrameTargets
from datasets.scoring.prediction import FramePrediction

BOX_14 = np.array([(0, 0, 99, 99)], np.float32)
CUP = 11


def cup_frame(name, labels, said):
    """Return prediction and targets of a frame of one cup with `labels`.

    `said` has a list for each predicted pair: its relations that score 0.95, the others 0.01.
    """
    P = len(said)
    scores_PR = np.full((P, 26), 0.01)
    for pair, relations in enumerate(said):
        scores_PR[pair, relations] = 0.95
    boxes_P4, ones_P = np.repeat(BOX_14, P, axis=0), np.ones(P)
    prediction = FramePrediction(boxes_P4, boxes_P4, np.full(P, CUP), ones_P, ones_P, scores_PR)
    labels_G2 = np.array([(0, relation) for relation in labels])
    return prediction, FrameTargets(name, (100, 100), BOX_14[0], BOX_14, np.array([CUP]), labels_G2)
