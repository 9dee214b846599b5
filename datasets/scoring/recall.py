"""Recall@K of scene graphs: the share of the true relations that a model names early.

F frames, G ground-truth triplets of all frames one after another, S constraints, R relations.

The protocol - triplets, constraints, matching - is in `ranking`. This file turns ranks
into figures, all of them fractions 0..1:

* ``recall@K`` (the field's): the recall of each frame, found / ground truth; then the mean over ALL
  frames. A frame without predictions is a 0 in that mean.
* ``mean_recall@K``: for each relation class, the mean of the frames' recalls of that class over the
  frames that have it; then the mean over 26 (as scene-graph papers on still images do).
* ``pooled_mean_recall@K``: for each relation class, found / ground truth pooled over all frames;
  then the mean over 26. STTran's evaluator has no mean recall; this is that of TEMPURA's copy of it
  (``calc_mrecall`` of sayaknag/unbiasedSGG).

Both means always divide by 26: a class that never occurs counts as 0 (TEMPURA's rule).
`RecallMeter.class_recalls` gives NaN for such classes, for other means.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np

from bload import InputError
from bload.errors import check_choice
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import RELATIONS
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import BORDERS, CONSTRAINTS, KS, triplet_ranks


class RecallMeter:
    """Ranks of all triplets seen so far, by frame; figures are computed on demand.

    It keeps a few bytes per triplet (about 10 MB for the 54,371 test frames), so that any K up to
    100 and any part of the triplets can be asked for afterwards. Merged meters of several ranks
    give, in any order and to the last bit, what one meter would. A frame counts once; a second one
    of the same name is refused.
    """

    def __init__(self, iou: str = "inclusive") -> None:
        check_choice("iou", iou, BORDERS)
        self.iou = iou
        self.names: dict[str, None] = {}
        """Of the frames counted, in order of arrival."""
        self._parts: dict[str, list[np.ndarray]] = {
            "labels_F": [np.zeros(0, np.int64)],
            "class_G": [np.zeros(0, np.int8)],
            "relation_G": [np.zeros(0, np.int8)],
            "ranks_SG": [np.zeros((len(CONSTRAINTS), 0), np.int16)],
        }

    def __len__(self) -> int:
        """Return the number of frames counted."""
        return len(self.names)

    def update(
        self, predictions: Sequence[FramePrediction], targets: Sequence[FrameTargets]
    ) -> np.ndarray:
        """Count frames, many at once (ragged P is fine); return their ranks, int16 ``(S, G)``.

        Raises `InputError`, and counts nothing, for a frame without a relation or counted before.
        """
        labels_F = np.array([len(target.relations_G2) for target in targets], np.int64)
        ranks_SG = triplet_ranks(predictions, targets, self.iou)
        self._add(
            [target.name for target in targets],
            labels_F=[labels_F],
            class_G=[t.object_classes_M[t.relations_G2[:, 0]].astype(np.int8) for t in targets],
            relation_G=[target.relations_G2[:, 1].astype(np.int8) for target in targets],
            ranks_SG=[ranks_SG],
        )
        return ranks_SG

    def state(self) -> dict[str, np.ndarray]:
        """Return the meter as plain arrays, to be gathered over ranks (for `merge`) or saved."""
        return {
            "names_F": np.array(list(self.names), dtype=np.str_),
            **{column: self._column(column) for column in self._parts},
        }

    def merge(self, states: Iterable[Mapping[str, np.ndarray]]) -> "RecallMeter":
        """Add what meters of the same kind counted, from their `state`; return this meter.

        Raises `InputError` if a frame was counted twice.
        """
        for state in states:
            names = [str(name) for name in state["names_F"]]
            self._add(names, **{column: [state[column]] for column in self._parts})
        return self

    def recall(self, constraint: str, k: int, chosen_G: np.ndarray | None = None) -> float:
        """Return Recall@K, 0..1, for K up to 100; `chosen_G` (bool) restricts the ground truth.

        Triplets are in order of arrival. The mean is over the frames that have a chosen one; NaN if
        none has.
        """
        found_G, frame_G = self._is_found(constraint, k), self._frame_of_triplet()
        if chosen_G is not None:
            found_G, frame_G = found_G[chosen_G], frame_G[chosen_G]
        return float(_mean_over_frames(found_G, frame_G, np.zeros_like(frame_G), len(self), 1)[0])

    def class_recalls(self, constraint: str, k: int, pooled: bool = False) -> np.ndarray:
        """Return the Recall@K of each relation, float64 ``(R,)``, NaN for one that never occurs.

        It is the mean over the frames that have the relation, or `pooled`: found / ground truth.
        """
        found_G, relation_G = self._is_found(constraint, k), self._column("relation_G")
        frame_G = np.zeros_like(relation_G) if pooled else self._frame_of_triplet()
        frames = 1 if pooled else len(self)
        return _mean_over_frames(found_G, frame_G, relation_G, frames, len(RELATIONS))

    def class_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each relation, its triplets and the frames that have it, int64 ``(R,)``."""
        relation_G, classes = self._column("relation_G"), len(RELATIONS)
        frames = np.unique(self._frame_of_triplet() * classes + relation_G) % classes
        return np.bincount(relation_G, minlength=classes), np.bincount(frames, minlength=classes)

    def summary(self) -> dict[str, float]:
        """Return ``{with,semi,no}/{recall,mean_recall,pooled_mean_recall}@K`` and counts."""
        relation_G = self._column("relation_G")
        figures = {
            "frames": float(len(self)),
            "triplets": float(len(relation_G)),
            "relation_classes": float(len(np.unique(relation_G))),
        }
        for constraint in CONSTRAINTS:
            for k in KS:
                figures[f"{constraint}/recall@{k}"] = self.recall(constraint, k)
                for name, pooled in (("mean_recall", False), ("pooled_mean_recall", True)):
                    recalls_R = self.class_recalls(constraint, k, pooled=pooled)
                    figures[f"{constraint}/{name}@{k}"] = float(np.nan_to_num(recalls_R).mean())
        return figures

    def part_summary(self, part: str, chosen_G: np.ndarray) -> dict[str, float]:
        """Return ``{with,semi,no}/recall@K_PART`` of some triplets; empty if none is chosen."""
        return {
            f"{constraint}/recall@{k}_{part}": self.recall(constraint, k, chosen_G)
            for constraint, k in product(CONSTRAINTS, KS if chosen_G.any() else ())
        }

    def unseen_summary(self, pairs_KR: np.ndarray | None) -> dict[str, float]:
        """Return ``{with,semi,no}/recall@K_unseen`` of triplets absent from training; their count.

        Without such a triplet only the count, and nothing if `pairs_KR`, the pairs of object class
        and relation in training as from `trained_pairs`, is None.
        """
        if pairs_KR is None:
            return {}
        unseen_G = ~pairs_KR[self._column("class_G"), self._column("relation_G")]
        count = {"unseen_triplets": float(unseen_G.sum())}
        return count | self.part_summary("unseen", unseen_G)

    def _add(self, names: Sequence[str], **parts: list[np.ndarray]) -> None:
        repeated = [n for n, count in Counter(names).items() if count > 1 or n in self.names]
        if repeated:
            raise InputError(
                f"frame {repeated[0]!r} was counted already and a frame counts once; "
                "leave out repeated frames (padding, overlapping clips) before the measure"
            )
        self.names |= dict.fromkeys(names)
        for column, arrays in parts.items():
            self._parts[column] += arrays

    def _column(self, name: str) -> np.ndarray:
        self._parts[name] = [np.concatenate(self._parts[name], axis=-1)]
        return self._parts[name][0]

    def _is_found(self, constraint: str, k: int) -> np.ndarray:
        return self._column("ranks_SG")[CONSTRAINTS.index(constraint)] < k

    def _frame_of_triplet(self) -> np.ndarray:
        """Return each triplet's frame number in order of names: sums do not depend on arrival."""
        number_F = np.argsort(np.argsort(np.array(list(self.names), dtype=np.str_)))
        return np.repeat(number_F, self._column("labels_F"))


def _mean_over_frames(
    found_G: np.ndarray, frame_G: np.ndarray, class_G: np.ndarray, frames: int, classes: int
) -> np.ndarray:
    """Return the mean recall of each class over the frames that have it, float64 ``(classes,)``.

    It is NaN for a class that no frame has.
    """
    cell_G = frame_G * classes + class_G
    total_FC = np.bincount(cell_G, minlength=frames * classes).reshape(frames, classes)
    found_FC = np.bincount(cell_G, found_G, frames * classes).reshape(frames, classes)
    recall_FC = np.divide(found_FC, total_FC, out=np.zeros(total_FC.shape), where=total_FC > 0)
    frames_C = np.count_nonzero(total_FC, axis=0)
    return np.divide(recall_FC.sum(0), frames_C, out=np.full(classes, np.nan), where=frames_C > 0)
