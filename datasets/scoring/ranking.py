"""Places of ground-truth triplets in a frame's ranked list of predicted triplets.

F frames, P pairs of a frame (padded to the most in the chunk), M ground-truth objects,
O = ground-truth objects of all frames one after another, G = ground-truth triplets likewise,
L = P * 26 places of a list, R = 26 relations, S = 3 constraints in the order of `CONSTRAINTS`.

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
  ground-truth triplets (labels written twice), and duplicates are not removed and use up ranks.

So a ground-truth triplet has a *rank*, the place (from 0) of the best prediction that finds it, and
is found within K exactly when rank < K. Ranks answer every K and every subset at once, and
counting the triplets ahead of one score replaces sorting the list.

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

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import ATTENTION, GROUPS, RELATIONS
from datasets.scoring.iou import overlaps
from datasets.scoring.prediction import FramePrediction, check_boxes, check_classes

CONSTRAINTS = ("with", "semi", "no")
KS = (10, 20, 50, 100)
IOU_THRESHOLD = 0.5
SEMI_THRESHOLD = 0.9
NO_CONSTRAINT_LENGTH = 100
NEVER = np.iinfo(np.int16).max
"""The rank of a triplet that no prediction finds."""

_ABSENT = -1.0  # below every score: not in the list
_CHUNK = 32  # frames; the score table of 100 pairs each then stays in a core's cache


def triplet_ranks(
    predictions: Sequence[FramePrediction],
    targets: Sequence[FrameTargets],
    convention: str = "inclusive",
) -> np.ndarray:
    """Return the rank of every ground-truth triplet under each constraint, int16 ``(S, G)``.

    G runs over the rows of ``relations_G2``, frame after frame. Rank 0 is the top of the list;
    `NEVER` means not found, for rank 100 and beyond under ``no``, and for 32,767 and beyond.
    """
    _check_targets(targets)
    ranks_SG = [np.zeros((len(CONSTRAINTS), 0), np.int16)]
    for first in range(0, len(targets), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        ranks_SG.append(_chunk_ranks(predictions[chunk], targets[chunk], convention))
    return np.concatenate(ranks_SG, axis=1)


def top_triplets(
    prediction: FramePrediction,
    target: FrameTargets,
    constraint: str,
    k: int,
    convention: str = "inclusive",
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the first `k` triplets of one frame's list: what the ranks of `triplet_ranks` count.

    They are pair, relation, score and True where one finds a ground-truth triplet, each ``(k,)`` or
    shorter where the list is.
    """
    _check_targets([target])
    if not len(prediction):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool)
    relations_1PR = _padded([prediction.relation_scores_PR])
    pairs_1P = _padded([prediction.person_scores_P]) * _padded([prediction.object_scores_P])
    scores_1PR = pairs_1P[..., None] * relations_1PR
    listed_L = _lists(scores_1PR, relations_1PR)[CONSTRAINTS.index(constraint)].ravel()
    place_K = np.argsort(-listed_L, kind="stable")[:k]  # stable: ties in order of places
    place_K = place_K[listed_L[place_K] > _ABSENT]
    pair_K, relation_K = np.divmod(place_K, len(RELATIONS))
    M = len(target.object_classes_M)
    matches_MP = _matches([prediction], [target], np.array([M]), convention)
    hit_K = (matches_MP[:, pair_K] & target.relations_MR()[:, relation_K]).any(axis=0)
    return pair_K, relation_K, listed_L[place_K], hit_K


def _check_targets(targets: Sequence[FrameTargets]) -> None:
    for target in targets:
        labels_G2, M = target.relations_G2, len(target.object_classes_M)
        if not len(labels_G2):
            raise InputError(
                f"{target.name} has no ground-truth relation, so its recall is 0 / 0; label a "
                "relation of a visible object in the annotations, or take the frame out of them"
            )
        if labels_G2.min() < 0 or (labels_G2.max(axis=0) >= (M, len(RELATIONS))).any():
            low, high = labels_G2.min(axis=0).tolist(), labels_G2.max(axis=0).tolist()
            raise InputError(
                f"{target.name}: relations_G2 must hold object rows 0..{M - 1} and relations "
                f"0..{len(RELATIONS) - 1} but reaches from {low} to {high}"
            )
        check_classes(f"{target.name}: object_classes_M", target.object_classes_M)
        check_boxes(f"{target.name}: object_boxes_M4", target.object_boxes_M4)
        check_boxes(f"{target.name}: person_box_4", target.person_box_4[None])


def _chunk_ranks(
    predictions: Sequence[FramePrediction], targets: Sequence[FrameTargets], convention: str
) -> np.ndarray:
    objects_F = [len(target.object_classes_M) for target in targets]
    labels_F = [len(target.relations_G2) for target in targets]
    frame_G = np.repeat(np.arange(len(targets)), labels_F)
    first_object_F = np.cumsum([0, *objects_F[:-1]])
    labels_G2 = np.concatenate([target.relations_G2 for target in targets])
    object_G, relation_G = labels_G2[:, 0] + first_object_F[frame_G], labels_G2[:, 1]

    ranks_SG = np.full((len(CONSTRAINTS), len(frame_G)), NEVER, np.int16)
    matches_OP = _matches(predictions, targets, np.array(objects_F), convention)
    hit_G = np.logical_or.reduce(matches_OP, axis=1)[object_G]
    if not hit_G.any():
        return ranks_SG
    frame_G, object_G, relation_G = frame_G[hit_G], object_G[hit_G], relation_G[hit_G]

    relations_FPR = _padded([p.relation_scores_PR for p in predictions])
    persons_FP = _padded([p.person_scores_P for p in predictions])
    objects_FP = _padded([p.object_scores_P for p in predictions])
    scores_FPR = (persons_FP * objects_FP)[..., None] * relations_FPR
    # Padding scores 0 and comes after every real pair, so it is never ahead of anything.
    for row, listed_FPR in enumerate(_lists(scores_FPR, relations_FPR)):
        best_G, place_G = _best_candidates(listed_FPR, matches_OP, frame_G, object_G, relation_G)
        listed_FL = listed_FPR.reshape(len(targets), -1)
        ranks_G = np.minimum(_ahead(listed_FL, frame_G, best_G, place_G), NEVER)
        if CONSTRAINTS[row] == "no":
            ranks_G[ranks_G >= NO_CONSTRAINT_LENGTH] = NEVER
        ranks_SG[row, hit_G] = np.where(best_G > _ABSENT, ranks_G, NEVER)
    return ranks_SG


def _matches(
    predictions: Sequence[FramePrediction],
    targets: Sequence[FrameTargets],
    objects_F: np.ndarray,
    convention: str,
) -> np.ndarray:
    """True where a pair has the class of a ground-truth object and both boxes, ``(O, P)``."""
    classes_FP = _padded([p.object_classes_P for p in predictions])  # padding is class 0: no match
    people_FP4 = _padded([p.person_boxes_P4 for p in predictions])
    boxes_FP4 = _padded([p.object_boxes_P4 for p in predictions])
    true_people_F14 = np.stack([target.person_box_4 for target in targets])[:, None]
    true_boxes_O4 = np.concatenate([target.object_boxes_M4 for target in targets])
    true_classes_O = np.concatenate([target.object_classes_M for target in targets])
    frame_O = np.repeat(np.arange(len(targets)), objects_F)

    person_FP = overlaps(true_people_F14, people_FP4, convention) >= IOU_THRESHOLD
    matches_OP = (classes_FP[frame_O] == true_classes_O[:, None]) & person_FP[frame_O]
    row, pair = np.nonzero(matches_OP)
    overlap = overlaps(true_boxes_O4[row], boxes_FP4[frame_O[row], pair], convention)
    matches_OP[row, pair] = overlap >= IOU_THRESHOLD
    return matches_OP


def _lists(scores_FPR: np.ndarray, relations_FPR: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the triplets that each of `CONSTRAINTS` lists, in their order; the rest absent."""
    best_FPR = np.zeros(scores_FPR.shape, bool)
    for group in GROUPS.values():
        best_FP1 = relations_FPR[..., group].argmax(axis=-1, keepdims=True) + group.start
        np.put_along_axis(best_FPR, best_FP1, True, axis=-1)
    semi_FPR = relations_FPR > SEMI_THRESHOLD
    semi_FPR[..., ATTENTION] = best_FPR[..., ATTENTION]
    return (
        np.where(best_FPR, scores_FPR, _ABSENT),
        np.where(semi_FPR, scores_FPR, _ABSENT),
        scores_FPR,
    )


def _best_candidates(
    listed_FPR: np.ndarray,
    matches_OP: np.ndarray,
    frame_G: np.ndarray,
    object_G: np.ndarray,
    relation_G: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return score and place ``0..L-1`` of the first listed triplet that finds each of the G."""
    candidates_GP = np.where(matches_OP[object_G], listed_FPR[frame_G, :, relation_G], _ABSENT)
    pair_G = candidates_GP.argmax(axis=1)  # the first among equals
    return candidates_GP[np.arange(len(pair_G)), pair_G], pair_G * len(RELATIONS) + relation_G


def _ahead(
    listed_FL: np.ndarray, frame_G: np.ndarray, best_G: np.ndarray, place_G: np.ndarray
) -> np.ndarray:
    """Count listed triplets before a given one: higher scores, and ties in earlier places."""
    listed_GL = listed_FL[frame_G]
    ahead_G = np.count_nonzero(listed_GL > best_G[:, None], axis=1)
    level_G = np.count_nonzero(listed_GL >= best_G[:, None], axis=1) - ahead_G
    for row in np.flatnonzero(level_G > 1):
        ahead_G[row] += np.count_nonzero(listed_GL[row, : place_G[row]] == best_G[row])
    return ahead_G


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    """Stack arrays ``(P_f, ...)`` of frames into one ``(F, P, ...)`` in float64, zeros behind."""
    padded = np.zeros((len(rows), max(len(row) for row in rows), *rows[0].shape[1:]))
    for frame, row in enumerate(rows):
        padded[frame, : len(row)] = row
    return padded
