"""The best Recall@K that an observer of limited memory can reach, computed from the scripts.

An observer of memory k sees persons, objects, classes and spatial relations perfectly. Of attention
and contacting it knows the code in force if its cue was shown within the last k frames, this one
included: k = 1 is an observer without memory, `EVERYTHING` one that remembers the video so far.
Every observer also knows whether an object has shown its first cue; before it the null code is in
force. That is generous: the figures are upper bounds for any model that remembers k frames and
predicts each pair once, so such a model that beats the observer of k = 1 by more than luck
remembers. A model may predict a pair several times, so the same network without memory is to be
shown beside it.

A code whose cue is out of reach is a fresh draw for the observer: codes are drawn independently at
each switch, and when cues are shown does not depend on which code they show (`cues.draw_states`).
So its distribution is exactly the generator's chances, and the number of ground-truth triplets G,
by which the recall of a frame is divided, is a known number plus a binomial one (codes of two
relations among the unknown). An observer lists first what adds most to its expected recall, the
triplets of greatest ``E[1(triplet holds) / G]``; recall is a sum of these, so no other list is
better.

Two lists: *one pair per object* has each object once with the best relation of each group, which is
the constraint ``with`` for a model that predicts each pair once. *Any triplets* may name the same
pair again with other relations: the constraint ``no``, and what many queries per pair could reach
under ``with``. Recall on memory-dependent triplets has a list of its own, in which G counts only
these.

T frames that count, M objects, P objects in sight, R = 26 relations, C codes.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import binom
from tabulate import tabulate

from datasets.annotations.vocabulary import ATTENTION, CONTACTING, RELATIONS, SPATIAL
from datasets.synthetic import cues
from datasets.synthetic.evidence import evidence_ages
from datasets.synthetic.script import Script, write_scripts
from datasets.synthetic.world import World

MEMORYLESS = 1
EVERYTHING = math.inf
KS = (10, 20, 50)
PART = "memory"
LISTS = {"with": "one pair per object", "no": "any triplets"}
"""Constraint -> the observer's list that it measures."""


def _multi_hot(codes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    held_CR = np.zeros((len(codes), len(RELATIONS)), dtype=bool)
    for code, relations in enumerate(codes):
        held_CR[code, list(relations)] = True
    return held_CR


_ATTENTION_CR = _multi_hot(cues.ATTENTION_CODES)
_CONTACTING_CR = _multi_hot(cues.CONTACTING_CODES)
_CHANCES_C = cues.CONTACTING_CHANCES
_TWO_C = _CONTACTING_CR.sum(axis=1) == 2
_TWO = float(_CHANCES_C[_TWO_C].sum())
"""Chance that a contacting code stands for two relations."""
_ALONE_R = _CHANCES_C[~_TWO_C] @ _CONTACTING_CR[~_TWO_C]
_PAIRED_R = _CHANCES_C[_TWO_C] @ _CONTACTING_CR[_TWO_C]
"""Chances of codes that stand for relation R alone, and for R and another one."""


def triplet_weights(script: Script, memory: float, part: bool = False) -> np.ndarray:
    """Gain in expected recall of its frame from listing each triplet, float64 ``(T, M, R)``.

    0 for objects out of sight. With `part` the recall is that of memory-dependent triplets alone,
    and all weights of a frame without any are 0.
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
    sure_T = (counts_a_TM + counts_s_TM * spatial_TM + counts_c_TM * labels_TM).sum(axis=1)
    open_T = (counts_c_TM & ~known_c_TM).sum(axis=1)
    per_label_T11 = _mean_inverse(sure_T, open_T)[:, None, None]
    one_T11 = _mean_inverse(sure_T, open_T - 1)[:, None, None]
    two_T11 = _mean_inverse(sure_T + 1, open_T - 1)[:, None, None]

    weights_TMR = np.where(known_a_TM1, _ATTENTION_CR[attention.code_TM], 0) * per_label_T11
    chances_R = cues.ATTENTION_CHANCES @ _ATTENTION_CR
    weights_TMR += ~known_a_TM1 * chances_R * per_label_T11
    weights_TMR *= counts_a_TM[..., None]
    weights_TMR[..., SPATIAL] = counts_s_TM[..., None] * script.spatial_TM6 * per_label_T11
    weights_TMR += counts_c_TM[..., None] * np.where(
        known_c_TM[..., None],
        _CONTACTING_CR[contacting.code_TM] * per_label_T11,
        _ALONE_R * one_T11 + _PAIRED_R * two_T11,
    )
    return weights_TMR


def _mean_inverse(sure_T: np.ndarray, open_T: np.ndarray) -> np.ndarray:
    """``E[1 / (sure + Binomial(open, _TWO))]``, float64 ``(T,)``; 0 where that is 1 / 0."""
    chances_N = _binomials(int(open_T.max(initial=0)))[np.maximum(open_T, 0)]
    labels_TN = sure_T[:, None] + np.arange(chances_N.shape[1])
    return (chances_N / np.maximum(labels_TN, 1)).sum(axis=1) * (sure_T > 0)


@cache
def _binomials(most: int) -> np.ndarray:
    """Row n: the chances of 0..most codes of two relations among n."""
    return binom.pmf(np.arange(most + 1), np.arange(most + 1)[:, None], _TWO)


def expected_recall(
    scripts: Sequence[Script], memory: float, ks: Sequence[int] = KS
) -> dict[str, float]:
    """Recall expected over unknown codes, exactly, in 0..1, under the names of `RecallMeter`.

    ``with/recall@K`` is for one pair per object and ``no/recall@K`` for any triplets; both also
    with ``_memory`` for the memory-dependent triplets (NaN if there are none).
    """
    figures = {}
    for ending, part in (("", False), (f"_{PART}", True)):
        sums = {(constraint, k): 0.0 for constraint in LISTS for k in ks}
        frames = 0
        for script in scripts:
            weights_TMR = triplet_weights(script, memory, part)
            frames += int(np.count_nonzero(weights_TMR.any(axis=(1, 2))))
            for constraint in LISTS:
                listed_TL = _listed(weights_TMR, constraint)
                for k in ks:
                    sums[constraint, k] += float(listed_TL[:, :k].sum())
        for (constraint, k), total in sums.items():
            figures[f"{constraint}/recall@{k}{ending}"] = total / frames if frames else math.nan
    return figures


def _listed(weights_TMR: np.ndarray, constraint: str) -> np.ndarray:
    """Weights in the order in which an observer lists its triplets, ``(T, L)``."""
    if constraint == "with":
        groups = (ATTENTION, SPATIAL, CONTACTING)
        weights_TMR = np.stack([weights_TMR[..., group].max(axis=2) for group in groups], axis=2)
    return -np.sort(-weights_TMR.reshape(len(weights_TMR), -1), axis=1)


def observers_table(world: World, split: str) -> str:
    """Format the recall in percent of observers that remember 1 to 20 frames, or everything."""
    scripts = write_scripts(world, split)
    age_G = np.concatenate([age_G for script in scripts for age_G in evidence_ages(script)])
    endings = (*KS, f"20_{PART}")
    columns = [f"{constraint}/recall@{ending}" for constraint in LISTS for ending in endings]
    rows = []
    for memory in (MEMORYLESS, 2, 5, 10, 20, EVERYTHING):
        figures = expected_recall(scripts, memory)
        name = "all" if memory == EVERYTHING else f"{memory}"
        rows.append((name, *(100 * figures[column] for column in columns)))
    heads = [column.replace("/recall", "\n").replace("_", "\n") for column in columns]
    return (
        f"{split} split: {len(scripts):,} videos, {sum(s.frames for s in scripts):,} frames, "
        f"{len(age_G):,} triplets, {np.count_nonzero(age_G >= 1):,} of which depend on memory\n\n"
        "Best Recall@K (%) of observers that remember k frames;\n"
        f"{', '.join(f'{c}: {title}' for c, title in LISTS.items())}\n"
        f"{tabulate(rows, ('k', *heads), 'plain', floatfmt='.2f', colalign=('left',))}"
    )
