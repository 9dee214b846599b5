"""Frames to measure: of one cup, to be counted by hand, and random ones."""

from dataclasses import replace

import numpy as np

from datasets.annotations.targets import FrameTargets
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.predictions_file import join_parts, write_part

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
    graph = BOX_14[0], BOX_14, np.array([CUP]), labels_G2
    return prediction, FrameTargets(name, (100, 100), *graph)


def draw_frame(rng, name, P):
    """Return P pairs around the objects of a random frame, without tied scores, and its targets."""
    M = int(rng.integers(1, 5))
    classes_M = rng.choice([2, 3, 36], M)  # few classes, so that pairs meet several objects
    labels = []
    for m in range(M):
        labels.append((m, rng.integers(3)))
        labels += [(m, r) for r in rng.integers(3, 9, rng.integers(1, 6))]  # copies may occur
        labels += [(m, r) for r in rng.integers(9, 26, rng.integers(1, 5))]
    low_N2 = rng.uniform(0, 200, (M + 1, 2))
    boxes_N4 = np.hstack([low_N2, low_N2 + rng.uniform(1, 150, low_N2.shape)]).astype(np.float32)
    graph = boxes_N4[0], boxes_N4[1:], classes_M, np.array(labels)

    def around(boxes_P4):
        moved_P22 = (boxes_P4 + rng.normal(0, 8, boxes_P4.shape)).reshape(-1, 2, 2)
        return np.sort(moved_P22, axis=1).reshape(-1, 4).astype(np.float32)

    m_P = rng.integers(M, size=P)
    scores_PR = rng.random((P, 26)) ** rng.choice([0.2, 1.0, 4.0])  # confident, level or shy
    exponent_P3 = np.exp(rng.normal(0, 2, (P, 3)))
    scores_PR[:, :3] = exponent_P3 / exponent_P3.sum(axis=1, keepdims=True)
    prediction = FramePrediction(
        person_boxes_P4=around(np.repeat(boxes_N4[:1], P, axis=0)),
        object_boxes_P4=around(boxes_N4[1 + m_P]),
        object_classes_P=np.where(rng.random(P) < 0.8, classes_M[m_P], rng.integers(1, 37, P)),
        person_scores_P=rng.random(P, np.float32),
        object_scores_P=rng.random(P, np.float32),
        relation_scores_PR=scores_PR.astype(np.float32),
    )
    return prediction, FrameTargets(name, (400, 480), *graph)


def tied(prediction, rng):
    """Round scores to a few values, which tie everywhere but within attention."""
    coarse = {
        name: np.ceil(getattr(prediction, name) * 4) / 4
        for name in ("person_scores_P", "object_scores_P", "relation_scores_PR")
    }
    levels_P3 = np.tile(np.float32([0.25, 0.5, 1]), (len(prediction), 1))
    coarse["relation_scores_PR"][:, :3] = rng.permuted(levels_P3, axis=1)
    return replace(prediction, **coarse)


def write_predictions(path, frames, metadata):
    """Write a predictions file in one process, of pairs of targets and prediction."""
    with write_part(path) as write:
        write(*zip(*frames, strict=True))
    join_parts(path, 1, metadata)
