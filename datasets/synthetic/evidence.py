"""The age of the evidence for each ground-truth triplet, and which triplets must be remembered.

The evidence for a spatial triplet is its own frame; for an attention or contacting one it is the
last cue. A triplet is *memory-dependent* if its cue was shown before, but not on this frame: its
age is 1 or more. Triplets of the null code, without any cue so far, are not.

T labelled frames, G ground-truth triplets of a frame.
"""

import numpy as np

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
