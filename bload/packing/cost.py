"""Cost of a micro-batch: a law in slots, or in milliseconds once it is fitted."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from bload.errors import InputError
from bload.packing.plan import Plan


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of computing forward and backward, by what there is to compute."""

    slot: float = 1.0
    """Of a slot, padding too."""
    frame: float = 0.0
    """Of a frame: losses, and an encoder that skips padding."""
    pair: float = 0.0
    """Of two frames of one sequence: attention by a ragged kernel."""
    walk: float = 0.0
    """Of a step of a loop over time, however many blocks take it at once."""
    launch: float = 0.0
    """Of a micro-batch."""

    def __post_init__(self) -> None:
        if not all(0 <= value < np.inf for value in astuple(self)):
            raise InputError(f"a cost is {astuple(self)}; give finite numbers from 0 on")

    def of_blocks(self, plan: Plan) -> np.ndarray:
        """Return what each block costs, ``(blocks,)``, but for the walk and the launch."""
        squares = np.bincount(plan.block_of_segment(), plan.length.astype(float) ** 2, plan.blocks)
        costs: np.ndarray = (
            self.slot * plan.slots + self.frame * plan.block_frames + self.pair * squares
        )
        return costs

    def of_shape(self, t_max: ArrayLike) -> np.ndarray:
        """Return what micro-batches of blocks of `t_max` slots cost besides their blocks."""
        return self.walk * np.asarray(t_max, dtype=float) + self.launch


def fit_cost(work: Sequence[tuple[float, ...]], seconds: Sequence[float]) -> Cost:
    """Return the cost in milliseconds that explains timed micro-batches best, none of it negative.

    Least squares of relative errors under bounds of 0; with five numbers all sets of those that
    are not 0 can be tried.

    Args:
        work: slots, frames, pairs, walked slots and launches of every micro-batch.
        seconds: that each took, ``(micro-batches,)``.

    Raises:
        InputError: there are fewer times than numbers to find, or one is not above 0.
    """
    work_MW, times_M = np.array(work, dtype=float), 1000 * np.array(seconds, dtype=float)
    if len(work_MW) < 5 or len(work_MW) != len(times_M) or not np.all(times_M > 0):
        raise InputError(
            f"{len(times_M)} times for {len(work_MW)} batches; give 5 or more, above 0"
        )
    scaled_MW = work_MW / times_M[:, None]
    best, least = np.zeros(5), np.inf
    for size in range(1, 6):
        for columns in map(list, combinations(range(5), size)):
            found = np.linalg.lstsq(scaled_MW[:, columns], np.ones(len(times_M)), rcond=None)[0]
            error = float(np.square(scaled_MW[:, columns] @ found - 1).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                best, least = np.zeros(5), error
                best[columns] = found
    return Cost(*best.tolist())
