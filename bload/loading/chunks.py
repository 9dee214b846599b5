"""Epochs that are planned a chunk at a time, for data sets of any size.

    order     a pseudorandom permutation of the sequences, computed piece by piece
    chunks    |0 .. chunk - 1|chunk .. 2 chunk - 1|. . .|    positions in that order
    blocks    |b b b b b b b b b|b b b b b b b b|b b b b|    each chunk is packed by itself
    steps     |s s s s|s s s s|s s s s|s s s s|s s s s|f f|  f: fillers, at the end alone

A chunk is packed when the one before has been trained. The blocks of a step that a chunk does not
complete are trained with the first of the next one. Memory is that of two chunks. What is random
and how few blocks there are is as in a data set of a chunk's size; each epoch has other chunks.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bload.batch.step import Step, StepList
from bload.errors import InputError, check_whole, plural
from bload.loading.planner import Planner, Position
from bload.packing.packers import find_packer, make_plan
from bload.packing.plan import Plan, filler_block
from bload.schedule.balance import make_schedule

ROUNDS = 6
"""Rounds of the Feistel network, an even number."""
MIX, MIX_AGAIN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class ChunkPlanner(Planner):
    """Epochs that are planned a chunk at a time.

    `plan`, and what is computed from it, takes the time and memory of a plan of the whole epoch.
    """

    def __init__(self, lengths: ArrayLike, packer: str, *, chunk: int, **options: Any) -> None:
        self.chunk = check_whole("chunk", chunk, 1)
        self._counts: dict[tuple[int, int], int] = {}
        """Blocks of the chunks that have been packed, by epoch and chunk."""
        super().__init__(lengths, packer, **options)
        most = len(self.lengths) + self.frames // self.t_max  # blocks of any plan
        self.blocks_per_batch = min(self.blocks_per_batch, -(-most // self.world_size))

    @property
    def chunks(self) -> int:
        return -(-len(self.lengths) // self.chunk)

    def check(self) -> None:
        """Make the schedule of the longest sequence alone, so that invalid options fail now."""
        self._refuse_obstacles()
        plan = self._plan_chunk(np.array([self.lengths.argmax()]), 0, 0)
        make_schedule(plan, self.world_size, self.batch_slots, last=self.last)

    def obstacle(self) -> str:
        """Return the option that needs the whole of an epoch, or ""."""
        if find_packer(self.packer).cuts_clips:
            return f"packer={self.packer}"
        return f"balance={self.balance}" if self.balance != "none" else super().obstacle()

    def _refuse_obstacles(self) -> None:
        if obstacle := self.obstacle():
            raise InputError(
                f"chunk plans a part of an epoch at a time, and {obstacle} needs the whole; leave "
                "one of the two out"
            )

    def make_plan_of(self, epoch: int) -> Plan:
        self._refuse_obstacles()  # a number of block_sizes is chosen for this plan
        parts = []
        for members, plan in (self.plan_of(epoch, chunk) for chunk in range(self.chunks)):
            parts.append((members[plan.sequence], plan.first, plan.length, np.diff(plan.offsets)))
        sequence, first, length, sizes = map(np.concatenate, zip(*parts, strict=True))
        columns = sequence, first, length, np.append(0, np.cumsum(sizes))
        return Plan(self.t_max, self.lengths, *columns, multiple_of=self.multiple_of)

    def first_block(self, position: Position) -> int:
        self.plan(position.epoch)  # counts the blocks of all chunks
        before = [self._counts[position.epoch, chunk] for chunk in range(position.chunk)]
        return sum(before, position.first_block)

    def _plan_chunk(self, members: np.ndarray, epoch: int, chunk: int) -> Plan:
        rng = np.random.default_rng([self.seed, epoch, 2, chunk])
        options = {"multiple_of": self.multiple_of, "rng": rng, **self.options}
        return make_plan(self.lengths[members], self.packer, self.t_max, **options)

    def plan_of(self, epoch: int, chunk: int) -> tuple[np.ndarray, Plan]:
        """Return the sequences of a chunk and its plan."""
        keys = np.random.default_rng([self.seed, epoch, 3]).integers(0, 2**64, ROUNDS, np.uint64)
        first, sequences = chunk * self.chunk, len(self.lengths)
        members = permuted(np.arange(first, min(first + self.chunk, sequences)), sequences, keys)
        plan = self._plan_chunk(members, epoch, chunk)
        self._counts[epoch, chunk] = plan.num_blocks
        return members, plan

    def counts(self, position: Position) -> list[int]:
        """Return the blocks of the chunks from ``position.chunk`` on, as far as they are packed."""
        keys = ((position.epoch, chunk) for chunk in range(position.chunk, self.chunks))
        return [self._counts[key] for key in takewhile(self._counts.__contains__, keys)]

    def steps(self, position: Position) -> int | None:
        counts = self.counts(position)
        if position.chunk + len(counts) < self.chunks:
            return None
        return position.first_step - (position.first_block - sum(counts)) // self.blocks_per_step

    def batches(self, position: Position, rank: int) -> Iterator[StepList]:
        """Yield the blocks of each batch of a rank; those of a step are dealt to ranks in turn."""
        is_first, rows = not position.step, self.blocks_per_batch
        position = self.normalise(position)
        numbers = range(position.chunk, self.chunks)
        chunks = (self.plan_of(position.epoch, chunk) for chunk in numbers)
        entries = ((members, plan, b) for members, plan in chunks for b in range(plan.num_blocks))
        blocks = islice(entries, position.first_block, None)
        while step := [*islice(blocks, self.blocks_per_step)]:
            frames = sum(int(plan.block_frames[b]) for _, plan, b in step)
            own = step[rank :: self.world_size]
            if is_first:  # one step may be all
                rows, is_first = min(rows, len(step[:: self.world_size])), False
            batches = -(-len(step[:: self.world_size]) // rows)
            for batch in range(batches):
                part = [filler_block(self.t_max)] * rows
                for row, (members, plan, b) in enumerate(own[batch * rows : (batch + 1) * rows]):
                    block = plan.block(b)
                    part[row] = replace(block, sequence=members[block.sequence])
                ends = batch + 1 == batches
                yield StepList(part, Step(position.epoch, frames, batches, ends, self.world_size))

    def normalise(self, position: Position) -> Position:
        """Return the position with the first block that is not trained yet, and its chunk."""
        block = position.first_block + (position.step - position.first_step) * self.blocks_per_step
        chunk = position.chunk
        for count in self.counts(position):
            if block < count:
                break
            block, chunk = block - count, chunk + 1
        if chunk == self.chunks:
            block = 0  # no block follows the last chunk
        return position._replace(first_step=position.step, first_block=block, chunk=chunk)

    def describe(self, position: Position) -> str:
        batches = f"{self.micro_batches} batches of " if self.micro_batches > 1 else ""
        return (
            f"{plural(self.chunks, 'chunk')} of {self.chunk:,} sequences, steps of "
            f"{plural(self.world_size, 'rank')} x {batches}"
            f"{plural(self.blocks_per_batch, 'block')} of {self.t_max:,}"
        )

    def definition(self) -> dict[str, Any]:
        return {**super().definition(), "chunk": self.chunk}


def permuted(position: np.ndarray, size: int, keys: np.ndarray) -> np.ndarray:
    """Return the numbers at some positions of a pseudorandom order of `size` numbers.

    A Feistel network permutes all numbers of some bits. A number that is not below `size` is put
    through it again until it is. `keys` are random uint64, an even number of them.
    """
    bits = max((size - 1).bit_length(), 2)
    number = _feistel(position.astype(np.uint64), bits, keys)
    while len(beyond := np.flatnonzero(number >= size)):
        number[beyond] = _feistel(number[beyond], bits, keys)
    return number.astype(np.int64)


def _feistel(number: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    low, high = np.uint64(bits // 2), np.uint64(bits - bits // 2)
    left, right = number >> low, number & np.uint64((1 << int(low)) - 1)
    for key in keys:
        mixed = (right ^ key) * MIX
        mixed ^= mixed >> np.uint64(32)
        mixed *= MIX_AGAIN
        left, right = right, left ^ (mixed >> (np.uint64(64) - high))
        low, high = high, low
    return np.asarray(left << low | right)
