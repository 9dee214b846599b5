"""Schedule of an epoch: the work of each rank in each step, and its cost."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bload.packing.cost import COST_PER_SLOT, Cost
from bload.packing.plan import Plan


@dataclass(frozen=True, slots=True)
class EpochAccount:
    """Counts of an epoch's slots and frames, over all ranks."""

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
        block: block numbers, micro-batch after micro-batch, ``(entries,)``; -1 is a filler.
        slots: slots of the blocks of each micro-batch, ``(micro-batches,)``.
        offsets: ``(micro-batches + 1,)``; micro-batch m holds ``block[offsets[m]:offsets[m + 1]]``.
        rank_offsets: ``(steps x ranks + 1,)``; in step s, rank r computes the micro-batches
            ``rank_offsets[i]:rank_offsets[i + 1]``, where i is ``s * ranks + r``.
        first_block: number of the plan's blocks that were trained before, in its order.
    """

    plan: Plan
    world_size: int
    block: np.ndarray
    slots: np.ndarray
    offsets: np.ndarray
    rank_offsets: np.ndarray
    first_block: int = 0

    @property
    def steps(self) -> int:
        """Steps per rank."""
        return (len(self.rank_offsets) - 1) // self.world_size

    def batches_of(self, step: int, rank: int) -> range:
        """Return the numbers of a rank's micro-batches in a step."""
        group = step * self.world_size + rank
        return range(int(self.rank_offsets[group]), int(self.rank_offsets[group + 1]))

    def blocks_of(self, micro_batch: int) -> np.ndarray:
        """Return the blocks in a micro-batch, ``(rows,)``; -1 is a filler."""
        return self.block[self.offsets[micro_batch] : self.offsets[micro_batch + 1]]

    def blocks_of_step(self, step: int) -> np.ndarray:
        """Return the blocks of a step on all ranks, rank after rank; -1 is a filler."""
        first, last = self.rank_offsets[[step * self.world_size, (step + 1) * self.world_size]]
        return self.block[self.offsets[first] : self.offsets[last]]

    def frames_in_step(self, step: int) -> int:
        """Return the frames of a step over all ranks."""
        block = self.blocks_of_step(step)
        return int(self.plan.block_frames[block[block >= 0]].sum())

    def loads(self, cost: Cost = COST_PER_SLOT) -> np.ndarray:
        """Return the cost of each rank's work in each step, ``(steps, ranks)``."""
        filler_cost = cost.slot * self.plan.slots.min()
        block_costs = np.append(cost.of_blocks(self.plan), filler_cost)[self.block]
        cost_M = np.add.reduceat(block_costs, self.offsets[:-1]) + cost.of_shape(self.slots)
        return np.add.reduceat(cost_M, self.rank_offsets[:-1]).reshape(self.steps, self.world_size)

    def imbalance(self, cost: Cost = COST_PER_SLOT) -> float:
        """Return the time of an epoch relative to one whose steps are shared evenly by ranks.

        A step lasts as long as its slowest rank. Without steps or costs it is 1.
        """
        loads_SR = self.loads(cost)
        if not loads_SR.any():
            return 1.0
        return float(loads_SR.max(axis=1).sum() / loads_SR.mean(axis=1).sum())

    @cached_property
    def account(self) -> EpochAccount:
        """Counts of the whole epoch; `steps` counts only those from `first_block` on."""
        before = int(self.plan.slots[: self.first_block].sum())
        block = np.append(self.block[self.block >= 0], np.arange(self.first_block))
        frames, slots = int(self.plan.block_frames[block].sum()), int(self.plan.slots[block].sum())
        processed = before + int((np.diff(self.offsets) * self.slots).sum())
        return EpochAccount(
            steps=self.steps,
            blocks=len(block),
            padding=slots - frames,
            filler=processed - slots,
            deleted=self.plan.frames - frames,
            frames=frames,
            processed=processed,
        )
