"""Cost of a micro-batch, in slots, or in milliseconds if it is fitted."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike

from bload.errors import InputError
from bload.packing.plan import Plan


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a forward and backward pass, as a weighted sum."""

    slot: float = 1.0
    """Cost per slot, including padding."""
    frame: float = 0.0
    """Cost per frame: losses, and an encoder that skips padding."""
    pair: float = 0.0
    """Cost per pair of frames of one sequence: attention by a ragged kernel."""
    walk: float = 0.0
    """Cost per step of a loop over time, for any number of blocks."""
    launch: float = 0.0
    """Cost per micro-batch."""

    def __post_init__(self) -> None:
        if not all(0 <= value < np.inf for value in astuple(self)):
            raise InputError(f"cost is {astuple(self)}; give finite numbers from 0 on")

    def of_blocks(self, plan: Plan) -> np.ndarray:
        """Return the cost of each block, ``(blocks,)``, without walk and launch."""
        squares = np.bincount(plan.block_of_segment(), (1.0 * plan.length) ** 2, plan.num_blocks)
        return self.slot * plan.slots + self.frame * plan.block_frames + self.pair * squares

    def of_shape(self, t_max: ArrayLike) -> np.ndarray:
        """Return the cost of walk and launch for micro-batches with blocks of `t_max` slots."""
        return self.walk * np.asarray(t_max, dtype=float) + self.launch


COST_PER_SLOT = Cost()


def fit_cost(work: Sequence[tuple[float, ...]], seconds: Sequence[float]) -> Cost:
    """Fit a cost in milliseconds to timed micro-batches, with no coefficient below 0.

    The fit minimises squared relative errors, over all subsets of non-zero coefficients.

    Args:
        work: slots, frames, pairs, walked slots and launches of every micro-batch, at least five.
        seconds: time of every micro-batch, ``(micro-batches,)``.
    """
    work_MW = np.array(work, dtype=float) / (1000 * np.array(seconds, dtype=float)[:, None])
    fits, ones_M = [], np.ones(len(work_MW))
    subsets = chain.from_iterable(combinations(range(5), size) for size in range(1, 6))
    for columns in map(list, subsets):
        weight_W = np.zeros(5)
        weight_W[columns] = np.linalg.lstsq(work_MW[:, columns], ones_M, rcond=None)[0]
        if (weight_W >= 0).all():
            fits.append((float(np.square(work_MW @ weight_W - 1).sum()), weight_W.tolist()))
    return Cost(*min(fits)[1])
