"""The best Recall@K that an observer of limited memory can reach, computed from the scripts.

An observer of memory k sees persons, objects, classes and spatial relations perfectly. It knows an
attention or contacting code if the cue was shown within the last k frames, this one included: k = 1
is an observer without memory, `EVERYTHING` one that remembers the video so far. Every observer also
knows whether an object has shown its first cue; before it the null code holds. A code whose cue is
out of reach is a fresh draw with the generator's probabilities (`cues.draw_states`). So the number
G of ground-truth triplets, by which a frame's recall is divided, is a known number plus a binomial
one (codes of two relations among the unknown).

An observer lists each object once with the best relation of each group, like constraint ``with``
for a model that predicts each pair once. It lists first what adds most to its expected recall: the
triplets of greatest ``E[1(triplet holds) / G]``. For recall on memory-dependent triplets it makes a
separate list, in which G counts only these. docs/evaluation.md says what follows for models.

T labelled frames, M objects, R = 26 relations, C codes.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import binom
from tabulate import tabulate

from datasets.annotations.vocabulary import ATTENTION, CONTACTING, GROUPS, RELATIONS, SPATIAL
from datasets.synthetic import cues
from datasets.synthetic.script import Script, write_scripts
from datasets.synthetic.world import World

MEMORYLESS = 1
EVERYTHING = math.inf
K = 20
MEMORY_PART = "memory"


def _multi_hot(codes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    return np.array([[r in code for r in range(len(RELATIONS))] for code in codes])


_ATTENTION_CR = _multi_hot(cues.ATTENTION_CODES)
_CONTACTING_CR = _multi_hot(cues.CONTACTING_CODES)
_CHANCES_C = cues.CONTACTING_CHANCES
_TWO_C = _CONTACTING_CR.sum(axis=1) == 2
_TWO = float(_CHANCES_C[_TWO_C].sum())
"""Probability that a contacting code stands for two relations."""
_ALONE_R = _CHANCES_C[~_TWO_C] @ _CONTACTING_CR[~_TWO_C]
_PAIRED_R = _CHANCES_C[_TWO_C] @ _CONTACTING_CR[_TWO_C]
"""Probabilities of codes for relation R alone, and for R with another one."""


def triplet_weights(script: Script, memory: float, part: bool = False) -> np.ndarray:
    """Return the gain in a frame's expected recall by each triplet, float64 ``(T, M, R)``.

    It is 0 for objects out of sight. With `part` the recall is that of memory-dependent triplets
    alone, and all weights of a frame without any are 0.
    """
    attention, contacting = script.attention, script.contacting
    counts_a_TM = script.visible_TM & (attention.age_TM >= 1) if part else script.visible_TM
    counts_c_TM = script.visible_TM & (contacting.age_TM >= 1) if part else script.visible_TM
    counts_s_TM = script.visible_TM & (not part)
    known_a_TM1 = (attention.age_TM < memory)[..., None]
    known_c_TM = contacting.age_TM < memory

    # G = sure + Binomial(open, _TWO): a contacting code has one relation at least.
    labels_TM = np.where(known_c_TM, _CONTACTING_CR.sum(axis=1)[contacting.code_TM], 1)
    spatial_TM = script.spatial_TM6.sum(axis=2)
    known_labels_T = (counts_a_TM + counts_s_TM * spatial_TM + counts_c_TM * labels_TM).sum(axis=1)
    unknown_codes_T = (counts_c_TM & ~known_c_TM).sum(axis=1)
    per_label_T11 = _mean_inverse(known_labels_T, unknown_codes_T)[:, None, None]
    single_T11 = _mean_inverse(known_labels_T, unknown_codes_T - 1)[:, None, None]
    double_T11 = _mean_inverse(known_labels_T + 1, unknown_codes_T - 1)[:, None, None]

    weights_TMR = np.where(known_a_TM1, _ATTENTION_CR[attention.code_TM], 0) * per_label_T11
    chances_R = cues.ATTENTION_CHANCES @ _ATTENTION_CR
    weights_TMR += ~known_a_TM1 * chances_R * per_label_T11
    weights_TMR *= counts_a_TM[..., None]
    weights_TMR[..., SPATIAL] = counts_s_TM[..., None] * script.spatial_TM6 * per_label_T11
    weights_TMR += counts_c_TM[..., None] * np.where(
        known_c_TM[..., None],
        _CONTACTING_CR[contacting.code_TM] * per_label_T11,
        _ALONE_R * single_T11 + _PAIRED_R * double_T11,
    )
    return weights_TMR


def _mean_inverse(sure_T: np.ndarray, open_T: np.ndarray) -> np.ndarray:
    """Return ``E[1 / (sure + Binomial(open, _TWO))]``, float64 ``(T,)``; 0 where that is 1 / 0."""
    two_N = np.arange(max(open_T.max(initial=0), 0) + 1)  # codes of two relations
    open_T1 = np.maximum(open_T, 0)[:, None]
    chances_TN = binom(open_T1, two_N) * _TWO**two_N * (1 - _TWO) ** (open_T1 - two_N)
    return (chances_TN / np.maximum(sure_T[:, None] + two_N, 1)).sum(axis=1) * (sure_T > 0)


def expected_recall(scripts: Sequence[Script], memory: float, part: bool = False) -> float:
    """Return Recall@20 expected over unknown codes, exactly, in 0..1.

    With `part` that of memory-dependent triplets alone, NaN if there are none.
    """
    total, frames = 0.0, 0
    for script in scripts:
        weights_TMR = triplet_weights(script, memory, part)
        frames += int(np.count_nonzero(weights_TMR.any(axis=(1, 2))))
        groups = [weights_TMR[..., group].max(axis=2) for group in GROUPS.values()]
        best_TL = np.stack(groups, axis=2).reshape(len(weights_TMR), -1)
        total += float(-np.sort(-best_TL, axis=1)[:, :K].sum())
    return total / frames if frames else math.nan


def observers_table(world: World, split: str) -> str:
    """Format the recall in percent of observers that remember 1 to 20 frames, or everything."""
    scripts = write_scripts(world, split)
    age_G = np.concatenate([age_G for script in scripts for age_G in evidence_ages(script)])
    rows = []
    for memory in (MEMORYLESS, 2, 5, 10, 20, EVERYTHING):
        recalls = (100 * expected_recall(scripts, memory, part) for part in (False, True))
        rows.append(("all" if memory == EVERYTHING else f"{memory}", *recalls))
    head = ("frames remembered", f"Recall@{K} (%)", "on what must be remembered")
    return (
        f"{split} split: {len(scripts):,} videos, {sum(s.frames for s in scripts):,} frames, "
        f"{len(age_G):,} triplets, {np.count_nonzero(age_G >= 1):,} of which depend on memory\n\n"
        f"{tabulate(rows, head, 'plain', floatfmt='.2f', colalign=('left',))}"
    )


def evidence_ages(script: Script) -> tuple[np.ndarray, ...]:
    """Return the age of each triplet's evidence in frames, int64 ``(G,)`` per frame.

    The evidence for a spatial triplet is its own frame; for an attention or contacting one it is
    the last cue. A triplet is *memory-dependent* if its age is 1 or more. The order is that of
    `Script.targets`. `NO_CUE`: no cue was shown so far, and the triplet is of the null code.
    """
    ages_T = []
    for t, target in enumerate(script.targets()):
        row_G, relation_G = target.relations_G2.T
        object_G = np.flatnonzero(script.visible_TM[t])[row_G]
        age_G = np.zeros(len(row_G), np.int64)
        for states, group in ((script.attention, ATTENTION), (script.contacting, CONTACTING)):
            in_group_G = (relation_G >= group.start) & (relation_G < group.stop)
            age_G[in_group_G] = states.age_TM[t, object_G[in_group_G]]
        ages_T.append(age_G)
    return tuple(ages_T)
