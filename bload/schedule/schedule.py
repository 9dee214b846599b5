"""Schedule of an epoch: the work of each rank in each step, and its cost."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bload.packing.cost import Cost
from bload.packing.plan import Plan

COST_PER_SLOT = Cost()


@dataclass(frozen=True, slots=True)
class EpochAccount:
    """Cost of an epoch's schedule, over all ranks."""

    steps: int
    """Steps per rank."""
    blocks: int
    """Trained blocks of the plan."""
    padding: int
    """Empty slots of these blocks."""
    filler: int
    """Slots of the empty blocks added so that every rank takes every step."""
    deleted: int
    """Frames of the data set that are not trained: left out by the packer or in dropped blocks."""
    frames: int
    """Frames that are trained."""
    processed: int
    """Slots that the model processes: frames + padding + filler."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Blocks in every micro-batch, by step and rank.

    Args:
        plan: plan whose blocks are scheduled.
        ranks: number of ranks.
        block: block numbers, micro-batch after micro-batch, ``(entries,)``; -1 is a filler.
        slots: slots of the blocks of each micro-batch, ``(micro-batches,)``.
        offsets: ``(micro-batches + 1,)``; micro-batch m holds ``block[offsets[m]:offsets[m + 1]]``.
        shares: ``(steps x ranks + 1,)``; in step s, rank r computes the micro-batches ``shares[i]``
            to ``shares[i + 1] - 1``, where i is ``s * ranks + r``.

    Raises:
        ValueError: a block is scheduled twice or into a micro-batch of another size, a rank has no
            micro-batch in a step, or a block that continues another is not in its row.
    """

    plan: Plan
    ranks: int
    block: np.ndarray
    slots: np.ndarray
    offsets: np.ndarray
    shares: np.ndarray

    def __post_init__(self) -> None:
        real = self.block >= 0
        blocks = self.block[real]
        if np.any(np.bincount(blocks, minlength=self.plan.blocks) > 1):
            raise ValueError("a block is scheduled twice")
        if np.any(np.repeat(self.slots, np.diff(self.offsets))[real] != self.plan.slots[blocks]):
            raise ValueError("a block is scheduled into a micro-batch of another size")
        if np.any(np.diff(self.shares) < 1) or np.any(np.diff(self.offsets) < 1):
            raise ValueError("a rank has nothing to compute in some step")
        if self.plan.carries and self.steps:
            self._check_rows()
        for name in ("block", "slots", "offsets", "shares"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _check_rows(self) -> None:
        """Raise ValueError unless a block that continues another is in its row, a step later."""
        grid = self.block.reshape(self.steps, -1)  # fails unless all steps have equally many blocks
        place = np.full(self.plan.blocks, -1)
        place[grid[grid >= 0]] = np.flatnonzero(grid.ravel() >= 0)
        later = np.flatnonzero((self.plan.follows >= 0) & (place >= 0))
        if np.any(place[later] - place[self.plan.follows[later]] != grid.shape[1]):
            raise ValueError("a block does not go on in the row of the one before, a step later")

    @property
    def steps(self) -> int:
        """Steps per rank."""
        return (len(self.shares) - 1) // self.ranks

    def micro_batches(self, step: int, rank: int) -> range:
        """Return the numbers of a rank's micro-batches in a step."""
        group = step * self.ranks + rank
        return range(int(self.shares[group]), int(self.shares[group + 1]))

    def blocks(self, micro_batch: int) -> np.ndarray:
        """Return the blocks in a micro-batch, ``(rows,)``; -1 is a filler."""
        return self.block[self.offsets[micro_batch] : self.offsets[micro_batch + 1]]

    def blocks_of_step(self, step: int) -> np.ndarray:
        """Return the blocks of a step on all ranks, rank after rank; -1 is a filler."""
        first, last = self.shares[step * self.ranks], self.shares[(step + 1) * self.ranks]
        return self.block[self.offsets[first] : self.offsets[last]]

    def frames_in_step(self, step: int) -> int:
        """Return the frames of a step over all ranks."""
        block = self.blocks_of_step(step)
        return int(self.plan.block_frames[block[block >= 0]].sum())

    def loads(self, cost: Cost = COST_PER_SLOT) -> np.ndarray:
        """Return the cost of each rank's work in each step, ``(steps, ranks)``."""
        block_costs = np.append(cost.of_blocks(self.plan), 0.0)[self.block]
        is_filler = self.block < 0
        block_costs[is_filler] = cost.slot * np.repeat(self.slots, np.diff(self.offsets))[is_filler]
        cost_M = np.add.reduceat(block_costs, self.offsets[:-1]) + cost.of_shape(self.slots)
        loads: np.ndarray = np.add.reduceat(cost_M, self.shares[:-1])
        return loads.reshape(self.steps, self.ranks)

    def imbalance(self, cost: Cost = COST_PER_SLOT) -> float:
        """Return the time of an epoch relative to one whose steps are spread evenly over ranks.

        A step lasts as long as its slowest rank. Without steps it is 1.
        """
        loads_SR = self.loads(cost)
        if not len(loads_SR):
            return 1.0
        return float(loads_SR.max(axis=1).sum() / loads_SR.mean(axis=1).sum())

    @cached_property
    def account(self) -> EpochAccount:
        """Account of the epoch: steps, blocks, frames and slots."""
        block = self.block[self.block >= 0]
        frames, slots = int(self.plan.block_frames[block].sum()), int(self.plan.slots[block].sum())
        processed = int((np.diff(self.offsets) * self.slots).sum())
        return EpochAccount(
            steps=self.steps,
            blocks=len(block),
            padding=slots - frames,
            filler=processed - slots,
            deleted=self.plan.frames - frames,
            frames=frames,
            processed=processed,
        )
