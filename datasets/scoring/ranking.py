"""Ranks of ground-truth triplets in a frame's ranked list of predicted triplets.

F frames, P pairs of a frame (padded to the most in the chunk), M ground-truth objects of a frame,
O objects and G triplets of the ground truth of all frames, one after another, L = P * 26 positions,
K = 100 listed ones or fewer, R = 26 relations, S = 3 constraints in the order of `CONSTRAINTS`.

The rules are those of STTran's evaluator (``lib/evaluation_recall.py`` of yrcong/STTran), which
the Action Genome literature shares:

* A pair gives (person, attention, object), (object, spatial, person) and (person, contacting,
  object) triplets. The order of subject and object is part of a triplet, and the relation fixes it.
* A triplet scores person x object x relation. All groups compete in ONE list per frame.
* ``with``: the best relation of each group per pair. ``semi``: the best attention relation per pair
  and every spatial or contacting relation whose own score (not the product) is above 0.9.
  ``no``: all 26 relations of each pair, the 100 best products of the frame, then the end.
* A ground-truth triplet is found by a triplet of equal classes both of whose boxes have
  IoU >= 0.5 with the true ones. Matching is many-to-many: one prediction may find several
  ground-truth triplets (labels written twice), and duplicates use up ranks.

So a ground-truth triplet has a *rank*, the position (from 0) of the best prediction that finds it,
and is found within K if rank < K. Ranks serve every K and every subset. All lists end at 100, the
largest K, and a fixed number of array operations makes them for a chunk of frames.

Where STTran's arithmetic leaves the rule, this file keeps the rule:

* Ties. STTran sorts with an unstable sort and reverses it, so the order of equal scores is
  whatever the library does. Here the earlier pair comes first, then the lower relation.
* Zeros. STTran puts each group in a row of 26 scores padded with 0. So when a whole group scores
  exactly 0 its best relation becomes number 0, ``looking_at``; ``semi`` drops a pair's group whose
  first two scores add to exactly 0 (a saturated softmax can do that, with ``unsure`` at 1); and
  ``no`` fills its list up to 100 with padding of score 0 when there are 3 pairs or fewer, which
  comes after every real triplet and names relations in the wrong order of subject and object
  (it could match only where the object is itself a person).
* Precision. Here every product is float64. In ``no`` STTran multiplies the two box scores in their
  own precision before it cuts at 100; products that differ by less than rounding may swap there.
"""

from collections.abc import Sequence

import numpy as np

from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import ATTENTION, GROUPS, RELATIONS
from datasets.scoring.prediction import FramePrediction

BORDERS = {"inclusive": 1.0, "continuous": 0.0}
"""Border of a box -> number added to the difference of two corners.

``inclusive`` counts both border pixels, so a side is ``x2 - x1 + 1`` (that of the evaluators that
descend from Fast R-CNN, STTran's among them); ``continuous`` takes ``x2 - x1`` (COCO, torchvision).
They differ for small boxes.
"""
CONSTRAINTS = ("with", "semi", "no")
KS = (10, 20, 50, 100)
IOU_THRESHOLD = 0.5
SEMI_THRESHOLD = 0.9
LIST_LENGTH = 100
NEVER = np.iinfo(np.int16).max
"""Rank of a triplet that no listed prediction finds."""

_CHUNK = 32  # frames; the score table of 100 pairs each then stays in a core's cache


def triplet_ranks(
    predictions: Sequence[FramePrediction], targets: Sequence[FrameTargets], iou: str
) -> np.ndarray:
    """Return the rank of every ground-truth triplet under each constraint, int16 ``(S, G)``.

    G runs over the rows of ``relations_G2``, frame after frame. Rank 0 is the top of the list, 99
    its end; `NEVER` means not found there.
    """
    for target in targets:
        target.check_labelled()
    chunks = [slice(first, first + _CHUNK) for first in range(0, len(targets), _CHUNK)]
    ranks_SG = [_chunk_ranks(predictions[c], targets[c], iou) for c in chunks]
    return np.concatenate([np.zeros((len(CONSTRAINTS), 0), np.int16), *ranks_SG], axis=1)


def top_triplets(
    prediction: FramePrediction, target: FrameTargets, constraint: str, k: int, iou: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the first `k`, at most 100, of one frame's list, by which `triplet_ranks` ranks.

    They are pair, relation, score and True for triplets that find a true one, each ``(k,)`` or
    shorter if the list is.
    """
    matches_MP = _matches([prediction], [target], iou)
    place_1K, score_1K = _lists([prediction])[CONSTRAINTS.index(constraint)]
    place_K, score_K = place_1K[0, :k], score_1K[0, :k]
    place_K, score_K = place_K[score_K >= 0], score_K[score_K >= 0]
    pair_K, relation_K = np.divmod(place_K, len(RELATIONS))
    hit_K = (matches_MP[:, pair_K] & target.relations_MR()[:, relation_K]).any(axis=0)
    return pair_K, relation_K, score_K, hit_K


def _chunk_ranks(
    predictions: Sequence[FramePrediction], targets: Sequence[FrameTargets], iou: str
) -> np.ndarray:
    objects_F = np.array([len(target.object_classes_M) for target in targets])
    labels_F = [len(target.relations_G2) for target in targets]
    labels_G2 = np.concatenate([target.relations_G2 for target in targets])
    object_G = labels_G2[:, 0] + np.repeat(np.cumsum(objects_F) - objects_F, labels_F)
    frame_O = np.repeat(np.arange(len(targets)), objects_F)

    matches_OP = _matches(predictions, targets, iou)
    rank_SOR = np.full((len(CONSTRAINTS), len(frame_O), len(RELATIONS)), NEVER, np.int16)
    if matches_OP.any():
        for rank_OR, (place_FK, _) in zip(rank_SOR, _lists(predictions), strict=True):
            pair_FK, relation_FK = np.divmod(place_FK, len(RELATIONS))
            is_hit_OK = matches_OP[np.arange(len(frame_O))[:, None], pair_FK[frame_O]]
            object_N, k_N = np.divmod(np.flatnonzero(is_hit_OK)[::-1], is_hit_OK.shape[1])
            rank_OR[object_N, relation_FK[frame_O[object_N], k_N]] = k_N  # the best comes last
    return rank_SOR[:, object_G, labels_G2[:, 1]]


def _matches(
    predictions: Sequence[FramePrediction], targets: Sequence[FrameTargets], iou: str
) -> np.ndarray:
    """Return which pairs have the class and both boxes of a true object, bool ``(O, P + 1)``.

    The last column, for no pair, is False.
    """
    classes_FP = _padded([p.object_classes_P for p in predictions], 1)  # class 0: no match
    first_F = np.cumsum([0, *(len(p) for p in predictions[:-1])])
    true_classes_O = np.concatenate([target.object_classes_M for target in targets])
    frame_O = np.repeat(np.arange(len(targets)), [len(t.object_classes_M) for t in targets])
    matches_OP = classes_FP[frame_O] == true_classes_O[:, None]
    row_N, pair_N = np.divmod(np.flatnonzero(matches_OP), matches_OP.shape[1])
    for true_O4, predicted in (
        (
            np.concatenate([target.person_box_4 for target in targets]).reshape(-1, 4)[frame_O],
            [p.person_boxes_P4 for p in predictions],
        ),
        (
            np.concatenate([target.object_boxes_M4 for target in targets]),
            [p.object_boxes_P4 for p in predictions],
        ),
    ):
        boxes_N4 = np.concatenate(predicted)[first_F[frame_O[row_N]] + pair_N]
        is_match_N = overlaps(true_O4[row_N], boxes_N4, iou) >= IOU_THRESHOLD
        matches_OP[row_N, pair_N] = is_match_N
        row_N, pair_N = row_N[is_match_N], pair_N[is_match_N]
    return matches_OP


def _lists(predictions: Sequence[FramePrediction]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return positions ``0..L-1`` and scores, both ``(F, K)``, of the lists of `CONSTRAINTS`.

    Lists are in order, ties by position; a shorter one ends in positions L that score -1.
    """
    relations_FPR = _padded([p.relation_scores_PR for p in predictions])
    persons_FP = _padded([p.person_scores_P for p in predictions])
    objects_FP = _padded([p.object_scores_P for p in predictions])
    # Padding scores 0 and comes after every real pair, so it is never ahead of anything.
    scores_FPR = (persons_FP * objects_FP)[..., None] * relations_FPR
    best_FP = [relations_FPR[..., group].argmax(-1) + group.start for group in GROUPS.values()]
    best_FP3 = np.stack(best_FP, axis=-1)
    semi_FPR = relations_FPR > SEMI_THRESHOLD
    semi_FPR[..., ATTENTION] = best_FP3[..., :1] == np.arange(ATTENTION.start, ATTENTION.stop)
    scores_FL = scores_FPR.reshape(len(scores_FPR), -1)
    best_N = (np.arange(0, scores_FL.size, len(RELATIONS)) + best_FP3.reshape(-1, 3).T).T.ravel()
    best_N = best_N[_highest(scores_FL.ravel()[best_N].reshape(len(scores_FL), -1))]
    listed = (best_N, np.flatnonzero(semi_FPR), _highest(scores_FL))
    return [_in_order(scores_FL, entry_N) for entry_N in listed]


def _highest(scores_FL: np.ndarray) -> np.ndarray:
    """Return each row's 100 highest and all ties with the least, as ascending indices."""
    last = scores_FL.shape[1] - LIST_LENGTH
    if last <= 0:
        return np.arange(scores_FL.size)
    return np.flatnonzero(scores_FL >= np.partition(scores_FL, last, axis=1)[:, last, None])


def _in_order(scores_FL: np.ndarray, entry_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the entries `entry_N`, ascending, of the flat table by score; see `_lists`."""
    frame_N, place_N = np.divmod(entry_N, scores_FL.shape[1])
    listed_F = np.bincount(frame_N, minlength=len(scores_FL))
    listed_FK = np.arange(listed_F.max()) < listed_F[:, None]
    score_FK = np.full(listed_FK.shape, -1.0)
    place_FK = np.full(listed_FK.shape, scores_FL.shape[1])
    score_FK[listed_FK], place_FK[listed_FK] = scores_FL.ravel()[entry_N], place_N
    order_FK = np.argsort(-score_FK, axis=1, kind="stable")[:, :LIST_LENGTH]
    return np.take_along_axis(place_FK, order_FK, 1), np.take_along_axis(score_FK, order_FK, 1)


def _padded(rows: list[np.ndarray], extra: int = 0) -> np.ndarray:
    """Stack arrays ``(P_f, ...)`` into one ``(F, P + extra, ...)`` in float64, zeros behind."""
    pairs_F = np.array([len(row) for row in rows])
    is_pair_FP = np.arange(pairs_F.max() + extra) < pairs_F[:, None]
    shape = *is_pair_FP.shape, *rows[0].shape[1:]
    if is_pair_FP.all():
        return np.concatenate(rows, dtype=np.float64).reshape(shape)
    padded = np.zeros(shape)
    padded[is_pair_FP] = np.concatenate(rows)
    return padded


def overlaps(boxes_4: np.ndarray, others_4: np.ndarray, iou: str) -> np.ndarray:
    """Return the IoU of xyxy boxes ``(..., 4)`` with others, broadcast, float64 ``(...)``.

    Two empty boxes overlap by 0. Inclusive boxes meet while less than one pixel lies between them.
    """
    border = BORDERS[iou]
    a_4, b_4 = boxes_4.astype(np.float64), others_4.astype(np.float64)
    low_2 = np.maximum(a_4[..., :2], b_4[..., :2])
    high_2 = np.minimum(a_4[..., 2:], b_4[..., 2:])
    shared_2 = np.maximum(high_2 - low_2 + border, 0.0)
    side_a_2 = a_4[..., 2:] - a_4[..., :2] + border
    side_b_2 = b_4[..., 2:] - b_4[..., :2] + border
    intersection = shared_2[..., 0] * shared_2[..., 1]
    union = side_a_2[..., 0] * side_a_2[..., 1] + side_b_2[..., 0] * side_b_2[..., 1] - intersection
    return np.divide(intersection, union, out=np.zeros_like(intersection), where=intersection > 0)
