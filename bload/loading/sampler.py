"""Batch sampler for torch's DataLoader: where a rank is in its epochs, with exact resume."""

import warnings
from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from typing import Any, NoReturn
from zlib import crc32

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from bload.batch.step import StepList
from bload.errors import InputError, check_choice, check_whole, differences, plural
from bload.loading.chunks import ChunkPlanner
from bload.loading.planner import Planner, Position, as_json_types, check_position, with_checksum
from bload.loading.ranks import compare_ranks, resolve_rank
from bload.packing.packers import check_packer_options
from bload.packing.plan import Block, Plan
from bload.schedule.schedule import EpochAccount, Schedule

PER_STEP = "blocks per step"
PASSES = count(1)
"""Numbers of the passes of all samplers."""
ENDED = (
    "this iterator ended when another of the same loader began, or when set_epoch or "
    "load_state_dict moved it; begin a new one, or make a loader for each"
)


class BlockSampler(Sampler[list[Block]]):
    """Yields the blocks of one rank by micro-batch; every rank takes the same number of steps.

    Use it as the ``batch_sampler`` of a DataLoader over a `BlockDataset`. It yields `Block` values
    instead of numbers, so worker processes need no plan and may persist over epochs.

    Args:
        lengths: frames of every sequence, ``(sequences,)``; an array or memory map keeps its dtype.
        packer: a key of `bload.PACKERS`.
        options: `t_max`, `batch_slots` and more. `bload.BlockLoader` describes these and the other
            arguments.

    Raises:
        InputError: invalid lengths or options, a rank or world size that contradicts the process
            group, or, at the start of an iteration, ranks with different plans or positions.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        packer: str = "bload_exact",
        *,
        chunk: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: dist.ProcessGroup | None = None,
        elastic: bool = False,
        **options: Any,
    ) -> None:
        self.rank, self.world_size = resolve_rank(rank, world_size, process_group)
        check_choice("elastic", elastic, (True, False))
        self.process_group, self.elastic = process_group, elastic
        check_packer_options(packer, options, BlockSampler, Planner)
        options["world_size"] = self.world_size
        if chunk is None:
            self.planner = Planner(lengths, packer, **options)
        else:
            self.planner = ChunkPlanner(lengths, packer, chunk=chunk, **options)
        if elastic and (obstacle := self.planner.obstacle()):
            raise InputError(
                f"elastic=True begins new steps at any block, and {obstacle} does not allow that; "
                "leave one of the two out"
            )
        self.lengths, self.t_max = self.planner.lengths, self.planner.t_max
        # A pass begins at `_begin` and moves `position`. After a broken one, the next begins there
        # again; after a finished epoch, at step 0. `_is_loaded`: the next begins at a loaded
        # position, even if that is an epoch's end. A pass, epoch or position is a generation.
        self.position = self._begin = Position()
        self._is_loaded = False
        self._generation = 0

    @property
    def sampler(self) -> "BlockSampler":
        """This sampler; trainers such as Lightning and Accelerate set the epoch on it."""
        return self

    @property
    def drop_last(self) -> NoReturn:
        """What Accelerate reads of a batch sampler whose batches it shares out among ranks."""
        raise InputError(
            "a BlockSampler yields the batches of one rank; do not let a trainer prepare its "
            "DataLoader, which would shard them again (docs/trainers.md)"
        )

    @property
    def epoch(self) -> int:
        """Current epoch, or the epoch of a loaded position."""
        return self.position.epoch

    @property
    def step(self) -> int:
        """Steps of the current epoch that are done."""
        return self.position.step

    @step.setter
    def step(self, step: int) -> None:
        self.position = self.position._replace(step=step)

    @property
    def plan(self) -> Plan:
        """Plan of the current epoch, the same on every rank."""
        return self.planner.plan(self.epoch)

    @property
    def schedule(self) -> Schedule:
        """Schedule of the current epoch, the same on every rank.

        After an elastic resume, it begins at the first block that had not been trained.
        """
        return self.planner.schedule(self.position)

    @property
    def account(self) -> EpochAccount:
        """Counts of the current epoch, over all ranks; of all its parts after an elastic resume."""
        return self.planner.account(self.position)

    @property
    def steps(self) -> int | None:
        """Steps of the current epoch, the same on every rank: those done and those left.

        With `chunk`, it is None until the last chunk of the epoch is packed.
        """
        return self.planner.steps(self.position)

    def share_done(self, step: int) -> Fraction:
        """Return the share of the current epoch that is done after `step` steps.

        Steps count equally. After an elastic resume, steps before it count by their blocks.
        """
        first_step, blocks = self.position.first_step, self.planner.first_block(self.position)
        before = Fraction(blocks, self.plan.num_blocks)
        return before + (1 - before) * Fraction(step - first_step, max(self.schedule.steps, 1))

    def __len__(self) -> int:
        """Batches of this rank in the current epoch, estimated before an elastic resume."""
        if self.steps is None:
            raise TypeError("with chunk, an epoch's batches are unknown before the last is packed")
        batches = int(np.diff(self.schedule.rank_offsets)[self.rank :: self.world_size].sum())
        return self.position.first_step * self.planner.micro_batches + batches

    def __repr__(self) -> str:
        return self.planner.describe(self.position)

    def __iter__(self) -> Iterator[list[Block]]:
        self.begin_pass()
        self.compare()
        for blocks in self.batches():
            self.step += blocks.step.ends
            yield blocks

    def begin_pass(self, next_epoch: bool = False) -> int:
        """Go to where the next pass begins, and return its generation.

        Args:
            next_epoch: a finished epoch is followed by the next one, not by itself.
        """
        is_next = self._is_finished and not self._is_loaded
        self._move(Position(self.epoch + next_epoch) if is_next else self._begin)
        return self._generation

    def compare(self, **settings: Any) -> None:
        """Raise `InputError` on every rank if they are not at one position with equal `settings`.

        It is a collective operation.
        """
        plan = None if isinstance(self.planner, ChunkPlanner) else self.plan
        names = ("sequence", "first", "length", "offsets", "slots", "batches")
        sums = [crc32(getattr(plan, name).tobytes()) for name in names] if plan else []
        shared = {
            **self.position._asdict(),
            **self.planner.definition(),
            "micro_batches": self.planner.micro_batches,
            "plan": sums,  # packers may differ
            **as_json_types(settings),
        }
        compare_ranks(shared, self.rank, self.world_size, self.process_group)

    def batches(self) -> Iterator[StepList]:
        """Yield the blocks of each batch of the pass under way.

        Raises:
            InputError: in place of the next batch, if the sampler has been moved meanwhile.
        """
        generation, pass_number = self._generation, next(PASSES)
        for number, blocks in enumerate(self.planner.batches(self.position, self.rank)):
            self.check_pass(generation)
            blocks.pass_and_number = pass_number, number
            yield blocks
        self._check_step(self.position)  # of chunks, the steps are known only now

    def check_pass(self, generation: int) -> None:
        """Raise `InputError` if a generation is over: a pass, epoch or position followed."""
        if generation != self._generation:
            raise InputError(ENDED)

    @property
    def _is_finished(self) -> bool:
        return self.step > 0 and self.step == self.steps

    def _move(self, position: Position, is_loaded: bool = False) -> None:
        self.position = self._begin = position
        self._is_loaded = is_loaded
        self._generation += 1

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, which ends an iteration of another epoch.

        The current epoch keeps a loaded position and an iteration; a finished one begins again.

        Raises:
            InputError: `epoch` is negative, or a loaded position would be lost.
        """
        epoch = check_whole("epoch", epoch, 0)
        if self._is_loaded and epoch not in (self.epoch, self.epoch + self._is_finished):
            raise InputError(
                f"epoch {epoch} begins, but the loaded position is step {self.step} of "
                f"epoch {self.epoch}; let the loop begin there: range(loader.epoch, ...)"
            )
        if epoch != self.epoch or (self._is_finished and not self._is_loaded):
            self._move(Position(epoch))

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the position and the definition of the epochs, as plain values.

        Args:
            step: steps trained in this epoch. None takes the steps yielded, which is right only if
                no worker prefetches, or if a loader counts the batches that it yields.
        """
        step = self.step if step is None else check_whole("step", step, 0)
        numbers = self.planner.normalise(self.position._replace(step=step))._asdict()
        return with_checksum({**numbers, "plan": self.planner.definition()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position saved in `state`.

        With `elastic`, rank 0 warns if the blocks per step are others.

        Raises:
            InputError: the state belongs to another plan; the message lists the differences.
        """
        check_position(state, "plan", "BlockSampler or BlockLoader")
        position = Position(*(state[key] for key in Position._fields))
        saved, definition = state["plan"], self.planner.definition()
        if changes := differences(saved, definition):
            before, now = saved.get(PER_STEP), definition[PER_STEP]
            has_other_size = {**saved, PER_STEP: now} == definition
            if not (has_other_size and self.elastic):
                advice = "restore these settings or start anew"
                if has_other_size:
                    advice = "restore them, by ranks or batch_slots, or start anew"
                if has_other_size and not self.planner.obstacle():
                    advice += "; elastic=True goes on in steps of another size"
                raise InputError(f"the saved position belongs to another plan: {changes}; {advice}")
            position = self.planner.resize(position, before)
            if self.rank == 0:
                warnings.warn(
                    f"epoch {position.epoch} goes on after step {position.step} with "
                    f"{plural(now, 'block')} per step instead of {before}; its steps differ from "
                    "those of an undisturbed run",
                    stacklevel=3,
                )
        self._check_step(position)
        self._move(position, is_loaded=True)

    def _check_step(self, position: Position) -> None:
        if (steps := self.planner.steps(position)) is not None and position.step > steps:
            raise InputError(
                f"the saved position is step {position.step} of epoch {position.epoch}, which has "
                f"{steps}; save the number of steps that were done"
            )
