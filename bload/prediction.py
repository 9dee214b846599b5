"""The predicted work of an epoch on several ranks.

Work is counted in slots that the ranks compute or wait for, before any training. It is a
prediction of time where a step takes as long as its slots, as in a recurrent model whose kernels
are busy; overheads per step, reading and communication are not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bload.dealing import deal
from bload.plan import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """Steps and slots of an epoch on all ranks, means over its plans."""

    steps: float
    slots: float
    """Frames, padding, fillers of the last step, and waiting for the fullest rank."""


def predict_work(plans: Sequence[Plan], ranks: int, batch_frames: int) -> Work:
    """Count the work of plans whose blocks are dealt to `ranks` ranks.

    Args:
        plans: of one loader, an epoch each.
        batch_frames: slots of a rank and step, rounded down to whole blocks, at least one.
    """
    loads = [deal(plan, ranks, batch_frames).loads() for plan in plans]
    slots = [ranks * load_SR.max(axis=1).sum() for load_SR in loads]
    return Work(float(np.mean([len(load_SR) for load_SR in loads])), float(np.mean(slots)))
