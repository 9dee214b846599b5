"""Time the measure on as many frames as Action Genome's test split has.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.recall_speed    # all 54,371 frames

Random frames of 1 to 4 objects, and 100 pairs per frame that lie around the true ones, so that most
triplets have several candidates. The clock covers checks, ranking and the summary.
"""

import argparse
import time

import numpy as np
from scipy.special import softmax

from datasets.annotations.targets import FrameTargets
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS
from datasets.scoring.recall import RecallMeter

PAIRS = 100
BATCH = 1024  # frames per update


def draw_target(rng: np.random.Generator, name: str) -> FrameTargets:
    """Draw a frame whose classes, boxes and labels are uniform."""
    M = int(rng.integers(1, 5))
    corner_N2 = rng.uniform(0, 200, (M + 1, 2))
    boxes_N4 = np.concatenate((corner_N2, corner_N2 + rng.uniform(40, 250, (M + 1, 2))), axis=1)
    labels = [(m, int(rng.integers(3))) for m in range(M)]
    for m in range(M):
        labels += [(m, int(r)) for r in rng.choice(6, rng.integers(1, 4), replace=False) + 3]
        labels += [(m, int(r)) for r in rng.choice(17, rng.integers(1, 4), replace=False) + 9]
    return FrameTargets(
        name=name,
        size_hw=(480, 480),
        person_box_4=boxes_N4[0].astype(np.float32),
        object_boxes_M4=boxes_N4[1:].astype(np.float32),
        object_classes_M=rng.integers(2, 37, M),
        relations_G2=np.array(labels, np.int64),
    )


def draw_pairs(rng: np.random.Generator, target: FrameTargets) -> dict[str, np.ndarray]:
    """Draw the fields of a prediction: boxes around the true ones, scores of the usual skew."""
    m_P = rng.integers(len(target.object_classes_M), size=PAIRS)
    shift_P4 = np.repeat(rng.normal(0, 10, (PAIRS, 2)), 2, axis=0).reshape(PAIRS, 4)
    logits_PR = rng.normal(-1, 2, (PAIRS, 26)).astype(np.float32)
    scores_PR = 1 / (1 + np.exp(-logits_PR))
    scores_PR[:, :3] = softmax(logits_PR[:, :3], axis=1)
    right_P, others_P = rng.random(PAIRS) < 0.7, rng.integers(2, 37, PAIRS)
    return {
        "person_boxes_P4": (target.person_box_4 + shift_P4).astype(np.float32),
        "object_boxes_P4": (target.object_boxes_M4[m_P] + shift_P4).astype(np.float32),
        "object_classes_P": np.where(right_P, target.object_classes_M[m_P], others_P),
        "person_scores_P": rng.random(PAIRS, dtype=np.float32),
        "object_scores_P": rng.random(PAIRS, dtype=np.float32),
        "relation_scores_PR": scores_PR,
    }


def time_measure(frames: int) -> tuple[float, dict[str, float]]:
    """Seconds of checks, ranking and summary, and the summary."""
    rng, meter, spent = np.random.default_rng(0), RecallMeter(), 0.0
    for first in range(0, frames, BATCH):
        names = range(first, min(first + BATCH, frames))
        targets = [draw_target(rng, f"{number:06d}") for number in names]
        drawn = [draw_pairs(rng, target) for target in targets]
        started = time.perf_counter()
        meter.update([FramePrediction(**fields) for fields in drawn], targets)
        spent += time.perf_counter() - started
    started = time.perf_counter()
    summary = meter.summary()
    return spent + time.perf_counter() - started, summary


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the Recall@K measure on random frames.")
    parser.add_argument("--frames", type=int, default=54_371)
    frames = parser.parse_args().frames

    spent, summary = time_measure(frames)
    rate = f"{spent:.1f} s, {frames / spent:,.0f} frames/s"
    print(f"{frames} frames x {PAIRS} pairs, {summary['triplets']:.0f} triplets: {rate}")
    for constraint in CONSTRAINTS:
        print(f"{constraint}/recall@20 {summary[f'{constraint}/recall@20']:.4f}")


if __name__ == "__main__":
    main()
