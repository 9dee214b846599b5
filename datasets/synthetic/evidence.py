"""The age of the evidence for each ground-truth triplet, and which triplets must be remembered.

The evidence for a spatial triplet is its own frame; for an attention or contacting one it is the
last cue. A triplet is *memory-dependent* if its cue was shown before, but not on this frame: its
age is 1 or more. Triplets of the null code, without any cue so far, are not.

T labelled frames, G ground-truth triplets of a frame.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from datasets.action_genome import VideoSource
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import ATTENTION, CONTACTING
from datasets.synthetic.script import Script


def evidence_ages(script: Script) -> tuple[np.ndarray, ...]:
    """Return the age of each triplet's evidence in frames, int64 ``(G,)`` per frame.

    The order is that of `Script.targets`. 0: this frame shows it (always so for spatial triplets);
    `NO_CUE`: no cue was ever shown.
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


def memory_flags(source: VideoSource, scripts: Sequence[Script]) -> Mapping[str, np.ndarray]:
    """Return frame name -> bool ``(G,)``, True for rows of ``relations_G2`` that depend on memory.

    `source` is a split made from `scripts`; its order of objects and relations is kept, since rows
    are matched by class and relation.
    """
    age_of_triplet = {
        triplet: age
        for script in scripts
        for target, age_G in zip(script.targets(), evidence_ages(script), strict=True)
        for triplet, age in zip(_triplets(target), age_G, strict=True)
    }
    return {
        target.name: np.array([age_of_triplet[key] >= 1 for key in _triplets(target)])
        for video in source.videos
        for target in video.frames
    }


def _triplets(target: FrameTargets) -> list[tuple[str, int, int]]:
    """Return frame, object class and relation of each triplet; a video's classes are distinct."""
    classes_M = target.object_classes_M.tolist()
    return [(target.name, classes_M[m], r) for m, r in target.relations_G2.tolist()]
