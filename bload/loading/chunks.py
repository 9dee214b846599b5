"""Sampler of epochs that are planned a chunk at a time, for data sets of any size.

    order     a pseudorandom permutation of the sequences, computed place by place
    chunks    |0 .. chunk - 1|chunk .. 2 chunk - 1|. . .|    places in that order
    blocks    |b b b b b b b b b|b b b b b b b b|b b b b|    each chunk is packed by itself
    steps     |s s s s|s s s s|s s s s|s s s s|s s s s|f f|  f: fillers, at the end alone

A chunk is packed beside the steps of the one before, by a process of its own if it is large. The
blocks of a step that a chunk does not complete are trained with the first of the next one. Memory
is that of two chunks. What is random and how few blocks there are is as in a data set of the size
of a chunk; which sequences share a chunk changes with the epoch.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bload.batch.step import Step, StepList
from bload.errors import InputError, check_whole, plural
from bload.loading.sampler import BlockSampler, ScheduleStart
from bload.packing.chunks import chunk_order, plan_apart
from bload.packing.packers import find_packer
from bload.packing.plan import Block, Plan, filler_block
from bload.schedule.balance import make_schedule

SAMPLE = 100_000
"""Sequences that are packed to estimate the steps of an epoch."""
_Place = tuple[np.ndarray, Plan, int]
"""Sequences of a chunk, its plan, and the number of a block in it."""


class ChunkSampler(BlockSampler):
    """Yields the blocks of one rank, as `BlockSampler` does, from plans of one chunk each.

    Positions are exact, may be `elastic`, and pack again only the chunk in which they lie. The
    number of steps is known when the last chunk is packed; until then `steps` is None and `len`
    raises `TypeError`.

    Args:
        lengths: frames of every sequence; an array keeps its dtype, and may be a memory map.
        packer: a key of `bload.PACKERS`.
        chunk: sequences in a chunk.
        options: other arguments of `BlockSampler`, except those that need a whole epoch.

    Raises:
        InputError: as in `BlockSampler`; or an option needs the plan of a whole epoch.
    """

    def __init__(
        self, lengths: ArrayLike, packer: str = "bload_exact", *, chunk: int, **options: Any
    ) -> None:
        self.chunk = check_whole("chunk", chunk, 1)
        self._counts: list[int] = []
        """Blocks of the chunks that this pass has packed."""
        super().__init__(lengths, packer, **options)
        self.chunks = -(-len(self.lengths) // self.chunk)
        """Number of chunks."""

    def _check_settings(self) -> None:
        obstacle = self._needs_whole_epoch
        if not obstacle and find_packer(self.packer).cuts_clips:  # placed over all sequences
            obstacle = f"packer={self.packer}"
        if not obstacle and self.balance != "none":
            obstacle = f"balance={self.balance}"
        if obstacle:
            raise InputError(
                f"chunk plans a part of an epoch at a time, and {obstacle} needs the whole; leave "
                "one of the two out"
            )
        longest = int(self.lengths.argmax())
        plan = self._plan_chunk(self.lengths[longest : longest + 1], 0, 0)
        make_schedule(plan, self.world_size, self.batch_slots, micro_batches=self.micro_batches)

    def _plan_chunk(self, lengths: np.ndarray, epoch: int, chunk: int) -> Plan:
        place = self.packer, self.t_max, self.seed, epoch
        options = {"multiple_of": self.multiple_of, "chunk": chunk, **self.options}
        return plan_apart(lengths, *place, **options)

    def _order(self, epoch: int, first: int, count: int) -> np.ndarray:
        return chunk_order(len(self.lengths), self.seed, epoch, first, count)

    def _pack(self, epoch: int, chunk: int) -> tuple[np.ndarray, Plan]:
        number = self._order(epoch, chunk * self.chunk, self.chunk)
        return number, self._plan_chunk(self.lengths[number], epoch, chunk)

    def _plan_of(self, epoch: int) -> Plan:
        raise InputError("with chunk, no plan of a whole epoch exists; leave chunk out for one")

    @property
    def steps(self) -> int | None:  # type: ignore[override]
        """Steps of the current epoch; None until the last chunk is packed."""
        steps, block, chunk = self._schedule_start
        if chunk + len(self._counts) < self.chunks:
            return None
        return steps - (block - sum(self._counts)) // self.blocks_per_step

    @property
    def steps_estimate(self) -> int:
        """Steps of the current epoch, or an estimate from a sample until they are known."""
        if self.steps is not None:
            return self.steps
        number = self._order(self.epoch, 0, min(self.chunk, SAMPLE))
        plan = self._plan_chunk(self.lengths[number], self.epoch, 0)
        return -int(-plan.blocks * self._frames // (plan.frames * self.blocks_per_step))

    def __len__(self) -> int:
        raise TypeError("with chunk, the number of batches is unknown; see steps_estimate")

    def __repr__(self) -> str:
        return (
            f"about {plural(self.steps_estimate, 'step')} x {plural(self.world_size, 'rank')} of "
            f"{plural(self.micro_batches * self.blocks_per_batch, 'block')} of {self.t_max:,}, "
            f"planned by {plural(self.chunks, 'chunk')} of {self.chunk:,} sequences"
        )

    def batches(self) -> Iterator[StepList]:
        """Yield the blocks of each batch of the pass under way.

        Raises:
            InputError: in place of the next batch, if the sampler has been moved meanwhile.
        """
        generation, blocks = self._generation, self._blocks(self.epoch)
        while step := [*islice(blocks, self.blocks_per_step)]:
            for batch in self._batches_of_step(step):
                self.check_pass(generation)
                yield batch

    def _blocks(self, epoch: int) -> Iterator[_Place]:
        """Yield the places of the blocks from the start on, while the next chunk is packed."""
        _, begin, first = self._schedule_start
        counts = self._counts = []
        pool = ThreadPoolExecutor(1)
        try:
            packing = [pool.submit(self._pack, epoch, c) for c in range(first, self.chunks)[:1]]
            for chunk in range(first, self.chunks):
                number, plan = packing.pop().result()
                counts.append(plan.blocks)
                if chunk + 1 < self.chunks:
                    packing.append(pool.submit(self._pack, epoch, chunk + 1))
                yield from ((number, plan, b) for b in range(begin, plan.blocks))
                begin = 0
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _batches_of_step(self, step: list[_Place]) -> Iterator[StepList]:
        """Yield this rank's batches of the blocks of a step, which are dealt to ranks in turn."""
        own, rows = step[self.rank :: self.world_size], self.blocks_per_batch
        fullest = step[:: self.world_size] if self.even else own
        batches = max(-(-len(fullest) // rows), 1)
        frames = sum(int(plan.block_frames[b]) for _, plan, b in step)
        for batch in range(batches):
            part = [_block(*place) for place in own[batch * rows : (batch + 1) * rows]]
            part += [filler_block(self.t_max)] * (rows - len(part))
            ends = batch + 1 == batches
            yield StepList(
                part,
                Step(self.epoch, frames, batches, ends, self.world_size, self.even, self._group),
            )

    def _move(self, epoch: int, step: int, is_loaded: bool = False) -> None:
        super()._move(epoch, step, is_loaded)
        self._counts = []

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the epoch, the steps done, the first block not yet trained, and the definition."""
        state = super().state_dict(step)
        steps, block, chunk = self._schedule_start
        block += (state["step"] - steps) * self.blocks_per_step
        for count in self._counts:
            if block < count:
                break
            block, chunk = block - count, chunk + 1
        if chunk == self.chunks:
            block = 0  # no block follows the last chunk
        return state | {"first_step": state["step"], "first_block": block, "chunk": chunk}

    def _schedule_start_of(self, state: dict[str, Any]) -> ScheduleStart:
        return ScheduleStart(state["step"], state["first_block"], state["chunk"])

    def _steps_of(self, state: dict[str, Any]) -> int:
        check_whole("chunk", state.get("chunk"), 0, self.chunks)
        return int(state["step"])  # how many there are is not known yet

    def definition(self) -> dict[str, Any]:
        """Return the settings that determine the blocks of a step, the chunk included."""
        return {**super().definition(), "chunk": self.chunk}


def _block(number: np.ndarray, plan: Plan, index: int) -> Block:
    """Return block `index` of a chunk, with the numbers of its sequences in the data set."""
    block = plan.block(index)
    return replace(block, sequence=number[block.sequence])
