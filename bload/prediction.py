"""The predicted work of an epoch on several ranks: of blocks, naive padding and ragged batches.

Work is counted in slots that the ranks compute or wait for, before any training. It is a
prediction of time where a step takes as long as its slots, as in a recurrent model whose kernels
are busy; overheads per step, reading and communication are not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bload.dealing import account, blocks_per_rank
from bload.plan import Plan, check_lengths


@dataclass(frozen=True, slots=True)
class Work:
    """Steps and slots of an epoch on all ranks, means over its plans."""

    steps: float
    slots: float
    """Frames, padding, and fillers of the last step."""


def predict_work(plans: Sequence[Plan], ranks: int, batch_frames: int) -> Work:
    """Count the work of plans whose blocks are dealt to `ranks` ranks.

    Args:
        plans: of one loader, an epoch each.
        batch_frames: slots of a rank and step, rounded down to whole blocks.

    Raises:
        InputError: `batch_frames` is smaller than a block.
    """
    blocks_per_step = ranks * blocks_per_rank(batch_frames, plans[0].t_max)
    costs = [account(plan, blocks_per_step) for plan in plans]
    steps = float(np.mean([cost.steps for cost in costs]))
    return Work(steps, float(np.mean([cost.processed for cost in costs])))


def ragged_work(
    lengths: ArrayLike, ranks: int, batch_frames: int, rng: np.random.Generator
) -> Work:
    """Count the work of ragged batches: no padding, but every rank waits for the fullest.

        rank 0   |a a a a|b b b|. .      a, b, c, d whole sequences; . the rank waits
        rank 1   |c c c c c c|d d d|

    Sequences come in random order. A batch takes one after another while they fit into
    `batch_frames`, at least one; the batches are dealt to the ranks in turn. A step lasts as long
    as its fullest batch, so it costs `ranks` times the frames of that batch.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
    """
    ends = np.cumsum(rng.permutation(check_lengths(lengths)))
    last = [0]  # frames before each batch
    while last[-1] < ends[-1]:
        fits = np.searchsorted(ends, last[-1] + batch_frames, side="right")
        first = np.searchsorted(ends, last[-1], side="right")
        last.append(int(ends[max(fits - 1, first)]))
    batches = np.diff(last)
    steps = -(-len(batches) // ranks)
    dealt = np.zeros(steps * ranks, dtype=np.int64)
    dealt[: len(batches)] = batches
    return Work(steps, float(ranks * dealt.reshape(steps, ranks).max(axis=1).sum()))
