"""Batch sampler of an epoch's plan for torch's DataLoader, with exact resume."""

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from bload.batch.step import Step, StepList, hash_ranks
from bload.errors import InputError, check_whole, differences, plural
from bload.lengths import keep_lengths
from bload.loading.ranks import compare_ranks, resolve_rank
from bload.packing.block_sizes import resolve_block_sizes
from bload.packing.cost import Cost
from bload.packing.packers import check_packer_options, find_packer, make_plan, natural_t_max
from bload.packing.pieces import check_fit
from bload.packing.plan import Block, Plan, filler_block, round_up
from bload.schedule.balance import Last, make_schedule
from bload.schedule.schedule import COST_PER_SLOT, EpochAccount, Schedule

PLACE = ("epoch", "step", "first_step", "first_block")
"""Keys of a saved position with whole numbers; it also has the definition, ``plan``."""
ENDED = (
    "this iterator ended when another of the same loader began, or when set_epoch or "
    "load_state_dict moved it; begin a new one, or make a loader for each"
)


class ScheduleStart(NamedTuple):
    """Where in an epoch the schedule starts: where `elastic` last changed the step size, else 0.

    With `ChunkSampler`, it is the loaded position.
    """

    step: int = 0
    """Steps before it."""
    block: int = 0
    """Blocks before it, with `ChunkSampler` in its chunk."""
    chunk: int = 0
    """Chunks before it, with `ChunkSampler`."""


class BlockSampler(Sampler[list[Block]]):
    """Yields the blocks of one rank by micro-batch; every rank takes the same number of steps.

    Use it as the ``batch_sampler`` of a DataLoader over a `BlockDataset`. It yields `Block` values
    instead of numbers, so worker processes need no plan and may persist over epochs.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        packer: a key of `bload.PACKERS`. ``bload_exact`` pads least. ``bload`` draws at
            random, the paper's rule as quoted; use it to compare with the paper, or where packing
            must be instant.
        batch_slots: slots in a batch, rounded down to ``batch_slots // t_max`` whole blocks, at
            least one. None takes one block.
        t_max: slots in a block; None takes the packer's default, see `natural_t_max`.
        rank: rank of this process; None takes that in the process group, or 0 without one.
        world_size: number of ranks; None takes the size of the process group, or 1 without one.
        seed: random seed; the only source of randomness, together with the epoch.
        last: ``fill`` completes the last step with empty blocks, ``drop`` leaves it out.
        names: names of the sequences, for error messages; ranks must have the same.
        process_group: group of the ranks that share the data; None takes the default group. With
            tensor or pipeline parallelism, pass ``mesh["dp"].get_group()``.
        block_sizes: block sizes, `t_max` the largest, or the number of sizes to choose.
        micro_batches: batches per rank and optimiser step, for gradient accumulation.
        even: give all ranks the same number of batches in a step by adding fillers.
            `mean_loss` with a count, and models that communicate in the forward pass, need this.
        balance: a key of `BALANCES`: how blocks are assigned to steps and ranks.
        cost: cost of a block, for `balance`.
        balance_options: options of `balance`, such as ``{"steps": 16}`` for ``window``.
        multiple_of: every segment takes a multiple of so many slots, for context parallelism, FP8,
            or encoders that subsample time: padding follows its frames, inside the row. `t_max` has
            to be a multiple too; its default is rounded up. It cannot cut long sequences.
        elastic: load positions that were saved with another number of blocks per step, such as that
            of another number of ranks. Every frame of the epoch is still trained once; its steps
            differ from those of an undisturbed run.
        options: the packer's own, such as ``long="split"``, which clears the state at every cut.

    Raises:
        InputError: invalid lengths or options, a rank or world size that contradicts the process
            group, or, at the start of an iteration, ranks with different plans or positions.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        packer: str = "bload_exact",
        *,
        batch_slots: int | None = None,
        t_max: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
        last: Last = "fill",
        names: Sequence[str] | None = None,
        process_group: dist.ProcessGroup | None = None,
        block_sizes: int | Sequence[int] = 1,
        micro_batches: int = 1,
        even: bool = True,
        balance: str = "none",
        cost: Cost = COST_PER_SLOT,
        balance_options: Mapping[str, Any] | None = None,
        multiple_of: int = 1,
        elastic: bool = False,
        **options: Any,
    ) -> None:
        self.rank, self.world_size = resolve_rank(rank, world_size, process_group)
        self.process_group, self._group = process_group, hash_ranks(process_group)
        check_packer_options(packer, options, BlockSampler)
        names = None if names is None else [*names]  # pandas would look for labels
        self.lengths, self._frames, self._lengths_digest = keep_lengths(lengths, names)
        self.packer, self.options, self.seed = packer, dict(options), seed
        self.last: Last = last
        self.multiple_of = check_whole("multiple_of", multiple_of, 1)
        natural = natural_t_max(self.lengths, packer, self.multiple_of)
        self.t_max = check_whole("t_max", natural if t_max is None else t_max, 1)
        long = {**find_packer(packer).options, **options}.get("long")
        name = names.__getitem__ if names else str
        check_fit(self.lengths, self.t_max, long, name, multiple_of=self.multiple_of)
        self.batch_slots = max(self.t_max, check_whole("batch_slots", batch_slots or 0, 0))
        if "batch_slots" in find_packer(packer).options:
            self.options["batch_slots"] = self.batch_slots
        self.micro_batches, self.even = check_whole("micro_batches", micro_batches, 1), even
        self.balance, self.cost, self.balance_options = balance, cost, dict(balance_options or {})
        self.names, self.epoch = names, 0
        self.block_sizes: tuple[int, ...] = ()
        if type(block_sizes) is not int or block_sizes != 1:
            arguments = self._make_plan(0), self.t_max, self.batch_slots, cost
            sizes = np.array(resolve_block_sizes(block_sizes, *arguments), dtype=np.int64)
            self.block_sizes = tuple(sorted({*round_up(sizes, self.multiple_of).tolist()}))
        self.elastic = elastic
        if elastic and (obstacle := self._needs_whole_epoch):
            raise InputError(
                f"elastic=True begins new steps at any block, and {obstacle} does not allow that; "
                "leave one of the two out"
            )
        self._plan: Plan | None = None
        self._planned_epoch = 0
        self._schedule: Schedule | None = None
        self._first_block = 0
        """Block at which the schedule begins."""
        self._schedule_start = ScheduleStart()
        self._check_settings()
        self._names_digest = names and hashlib.sha256(repr(names).encode()).hexdigest()[:16]
        # A pass begins at `_pass_step` and raises `step`. If it is broken off, the next pass begins
        # at the same step again; if it finishes the epoch, the next begins at 0. After
        # `load_state_dict`, a pass begins at the loaded step, even if that is the end of the epoch;
        # `_is_loaded` is True until then. Each new pass, epoch or loaded position is a generation,
        # and iterators of an older one raise.
        self.step = 0
        """Steps of the current epoch that are done."""
        self._pass_step = 0
        self._is_loaded = False
        self._generation = 0

    def _check_settings(self) -> None:
        """Build the schedule, so that invalid options fail now, not at step 0."""
        len(self)

    def _make_plan(self, epoch: int) -> Plan:
        arguments = self.lengths, self.packer, self.t_max, self.seed, epoch
        shared: dict[str, Any] = {"multiple_of": self.multiple_of, **self.options}
        return make_plan(*arguments, block_sizes=self.block_sizes, **shared)

    def _plan_of(self, epoch: int) -> Plan:
        if self._plan is None or self._planned_epoch != epoch:
            self._plan = self._schedule = None  # freed before the new ones are made
            self._plan, self._planned_epoch = self._make_plan(epoch), epoch
        return self._plan

    def _schedule_of(self, epoch: int, first_block: int = 0) -> Schedule:
        plan = self._plan_of(epoch)
        if self._schedule is None or self._first_block != first_block:
            self._schedule = make_schedule(
                plan,
                self.world_size,
                self.batch_slots,
                micro_batches=self.micro_batches,
                balance=self.balance,
                cost=self.cost,
                last=self.last,
                even=self.even,
                rng=np.random.default_rng([self.seed, epoch, 1]),
                first_block=first_block,
                **self.balance_options,
            )
            self._first_block = first_block
        return self._schedule

    @property
    def _needs_whole_epoch(self) -> str:
        """Option for which steps cannot begin at any block of an epoch, or ""."""
        options = {
            "long=carry": self.options.get("long") == "carry",
            f"packer={self.packer}": find_packer(self.packer).makes_batches,
            f"balance={self.balance}": self.balance in ("window", "queue"),
            "last=drop": self.last == "drop",
            "block_sizes": bool(self.block_sizes),
        }
        return next((option for option, is_set in options.items() if is_set), "")

    @property
    def sampler(self) -> "BlockSampler":
        """This sampler; trainers such as Lightning and Accelerate set the epoch on it."""
        return self

    @property
    def blocks_per_batch(self) -> int:
        """Blocks of the largest size in a batch."""
        return self.batch_slots // self.t_max

    @property
    def blocks_per_step(self) -> int:
        """Blocks of `t_max` slots in a step, over all ranks."""
        return self.world_size * self.micro_batches * self.blocks_per_batch

    @property
    def plan(self) -> Plan:
        """Plan of the current epoch, the same on every rank."""
        return self._plan_of(self.epoch)

    @property
    def schedule(self) -> Schedule:
        """Schedule of the current epoch, the same on every rank.

        After an elastic resume, it begins at the first block that had not been trained.
        """
        return self._schedule_of(self.epoch, self._schedule_start.block)

    @property
    def account(self) -> EpochAccount:
        """Cost of the current epoch, over all ranks; of all its parts after an elastic resume."""
        account, blocks = self.schedule.account, self._schedule_start.block
        frames, slots = int(self.plan.block_frames[:blocks].sum()), blocks * self.plan.t_max
        return replace(
            account,
            steps=self.steps,
            blocks=account.blocks + blocks,
            padding=account.padding + slots - frames,
            deleted=account.deleted - frames,
            frames=account.frames + frames,
            processed=account.processed + slots,
        )

    @property
    def steps(self) -> int:
        """Steps of the current epoch, the same on every rank: those done and those left."""
        return self._schedule_start.step + self.schedule.steps

    steps_estimate = steps
    """Equal to `steps`; an estimate in `ChunkSampler`."""

    def share_done(self, step: int) -> Fraction:
        """Return the share of the current epoch that is done after `step` steps.

        Steps count equally. After an elastic resume, steps before it count by their blocks.
        """
        start = self._schedule_start
        before = Fraction(start.block, self.plan.blocks)
        if before == 1:  # the end of the epoch was loaded
            return before
        return before + (1 - before) * Fraction(step - start.step, self.schedule.steps)

    @property
    def note(self) -> str:
        """Note that `balance` has nothing to balance, else an empty string."""
        if self.balance == "none":
            return ""
        unit, costs = "block", self.cost.of_blocks(self.plan)
        if not self.plan.has_one_size:
            unit, costs = "batch", self.schedule.costs(self.cost)[self.schedule.has_blocks]
        if np.ptp(costs) > 1e-9 * costs.max():
            return ""
        return f"every {unit} costs the same, so balance={self.balance} has nothing to balance"

    def __len__(self) -> int:
        """Batches of this rank in the current epoch; more than `steps` if a step takes several."""
        batches = int(np.diff(self.schedule.shares)[self.rank :: self.world_size].sum())
        return self._schedule_start.step * self.micro_batches + batches

    def __repr__(self) -> str:
        account, steps = self.account, self.schedule.steps
        count, unit, size = self.micro_batches * self.blocks_per_batch, "blocks", ""
        if not self.plan.has_one_size:
            count, unit, size = self.micro_batches, "batches", "up to "
        trained = np.count_nonzero(np.bincount(self.plan.sequence)) / max(account.steps, 1)
        longest = len(self.lengths) * int(self.lengths.max())  # slots if padded to it
        deleted = f"{account.deleted:,} frames deleted, " if account.deleted else ""
        earlier = ""  # before an elastic resume
        if account.steps > steps:
            earlier = f"{plural(account.steps - steps, 'step')} of another size, "
        per_rank = f" x {count} {unit}" if count > 1 else ""
        note = f"; {self.note}" if self.note else ""
        return (
            f"{plural(account.blocks, 'block')} of {size}{self.plan.t_max:,}, "
            f"{100 * account.padding / (account.frames + account.padding):.2f} % padding, {deleted}"
            f"{earlier}{plural(steps, 'step')} x {plural(self.world_size, 'rank')}{per_rank}, "
            f"{trained:.1f} sequences a step, {longest / account.processed:.1f}x fewer slots than "
            f"padding{note}"
        )

    def __iter__(self) -> Iterator[list[Block]]:
        self.begin_pass()
        self.compare()
        for blocks in self.batches():
            self.step += blocks.step.ends
            yield blocks

    def begin_pass(self, next_epoch: bool = False) -> int:
        """Go to where the next pass begins, and return its generation.

        That is a loaded position, else the beginning of the epoch. A pass that was broken off
        begins again.

        Args:
            next_epoch: a finished epoch is followed by the next one, not by itself.
        """
        if self._is_finished and not self._is_loaded:
            self._move(self.epoch + 1 if next_epoch else self.epoch, 0)
        else:
            self._move(self.epoch, self._pass_step)
        return self._generation

    def compare(self, **settings: Any) -> None:
        """Raise `InputError` on every rank if they are not at one position with equal `settings`.

        It is a collective operation.
        """
        position = {
            "epoch": self.epoch,
            "step": self.step,
            "begin": self._schedule_start,
            **self.definition(),
            "micro_batches": self.micro_batches,
            "blocks per batch": self.blocks_per_batch,
            "even": self.even,
            "balance": self.balance,
            **settings,
        }
        compare_ranks(as_json_types(position), self.rank, self.world_size, self.process_group)

    def batches(self) -> Iterator[StepList]:
        """Yield the blocks of each batch of the pass under way.

        Raises:
            InputError: in place of the next batch, if the sampler has been moved meanwhile.
        """
        generation, epoch, schedule = self._generation, self.epoch, self.schedule
        for step in range(self.step - self._schedule_start.step, schedule.steps):
            micro_batches = schedule.micro_batches(step, self.rank)
            whole = Step(
                epoch,
                schedule.frames_in_step(step),
                len(micro_batches),
                ranks=self.world_size,
                even=self.even,
                group=self._group,
            )
            for micro_batch in micro_batches:
                self.check_pass(generation)
                ends = micro_batch == micro_batches[-1]
                slots, blocks = int(schedule.slots[micro_batch]), schedule.blocks(micro_batch)
                yield StepList(
                    (schedule.plan.block(b) if b >= 0 else filler_block(slots) for b in blocks),
                    whole._replace(ends=ends),
                )

    def check_pass(self, number: int) -> None:
        """Raise `InputError` if generation `number` is over: a pass, epoch or position followed."""
        if number != self._generation:
            raise InputError(ENDED)

    @property
    def _is_finished(self) -> bool:
        return self.step > 0 and self.step == self.steps

    def _move(self, epoch: int, step: int, is_loaded: bool = False) -> None:
        self.epoch, self.step, self._pass_step = epoch, step, step
        if step == 0:
            self._schedule_start = ScheduleStart()
        self._is_loaded = is_loaded
        self._generation += 1

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, which ends an iteration of another epoch.

        The current epoch keeps a loaded position and an iteration under way; if it is finished, it
        begins again.

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
            self._move(epoch, 0)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the epoch, the steps done in it and the definition of the plan, as plain values.

        Args:
            step: steps trained in this epoch. None takes the steps yielded, which is right only if
                no worker prefetches, or if a loader counts the batches that it yields.
        """
        return {
            "epoch": self.epoch,
            "step": self.step if step is None else step,
            "first_step": self._schedule_start.step,
            "first_block": self._schedule_start.block,
            "plan": as_json_types(self.definition()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position saved in `state`, see `check_state`.

        With `elastic`, rank 0 warns if the blocks per step are others.
        """
        self.check_state(state)
        self._schedule_start = self._schedule_start_of(state)
        self._move(state["epoch"], state["step"], is_loaded=True)
        before, now = state["plan"]["blocks per step"], self.blocks_per_step
        if before != now and self.rank == 0:
            warnings.warn(
                f"epoch {self.epoch} goes on after step {self.step} with {plural(now, 'block')} "
                f"per step instead of {before}; its steps differ from those of an undisturbed run",
                stacklevel=2,
            )

    def _schedule_start_of(self, state: dict[str, Any]) -> ScheduleStart:
        """Return where the schedule starts if `state` is loaded."""
        start = ScheduleStart(state["first_step"], state["first_block"])
        before = state["plan"]["blocks per step"]
        if before == self.blocks_per_step:
            return start
        block = start.block + (state["step"] - start.step) * before
        return ScheduleStart(state["step"], min(block, self._plan_of(state["epoch"]).blocks))

    def check_state(self, state: dict[str, Any]) -> int:
        """Return the number of steps of the epoch of a saved position.

        Raises:
            InputError: the state belongs to another plan; the message lists the differences. Or
                its step is beyond the end of its epoch.
        """
        is_position = isinstance(state, dict) and isinstance(state.get("plan"), dict)
        numbers = [state.get(key) for key in PLACE] if is_position else []
        if not is_position or any(type(n) is not int or n < 0 for n in numbers):
            raise InputError("this is no state_dict of a BlockSampler or BlockLoader")
        saved, definition = as_json_types(state["plan"]), as_json_types(self.definition())
        key = "blocks per step"
        blocks_per_step = saved.get(key)
        has_other_size = isinstance(blocks_per_step, int)
        has_other_size &= {**definition, key: blocks_per_step} == saved
        changes = differences(saved, definition)
        if changes and not (has_other_size and self.elastic):
            advice = "restore these settings or start anew"
            if has_other_size:
                share, rest = divmod(blocks_per_step, self.world_size * self.micro_batches)
                if share and not rest:  # these slots keep the steps
                    slots = share * self.t_max
                    advice = f"with {plural(self.world_size, 'rank')}, set batch_slots to {slots}"
                elif not self._needs_whole_epoch:
                    advice += "; elastic=True goes on in steps of another size"
            raise InputError(f"the saved position belongs to another plan: {changes}; {advice}")
        steps = self._steps_of(state)
        if state["step"] > steps:
            raise InputError(
                f"the saved position is step {state['step']} of epoch {state['epoch']}, which has "
                f"{steps} steps; load a position as it was saved"
            )
        return steps

    def _steps_of(self, state: dict[str, Any]) -> int:
        """Return the number of steps of the epoch of a saved position."""
        steps, block = state["first_step"], state["first_block"]
        before = state["plan"]["blocks per step"]
        if before == self.blocks_per_step:
            return int(steps + self._schedule_of(state["epoch"], block).steps)
        return int(steps - (block - self._plan_of(state["epoch"]).blocks) // before)

    def definition(self) -> dict[str, Any]:
        """Return the settings that determine the blocks of a step, except those without effect."""
        sizes, is_balanced = self.block_sizes, self.balance != "none"
        pack, batches_per_step = find_packer(self.packer), self.world_size * self.micro_batches
        options = {key: value for key, value in self.options.items() if value != pack.options[key]}
        settings = {
            "packer": self.packer,
            "t_max": self.t_max,
            "options": options,
            "seed": self.seed,
            "last": self.last,
            "blocks per step": self.blocks_per_step,
            "multiple_of": self.multiple_of if self.multiple_of > 1 else None,
            "block_sizes": [*sizes] if sizes else None,
            "batch_slots": self.batch_slots if sizes else None,
            "batches per step": batches_per_step if pack.makes_batches else None,
            "ranks": self.world_size if self.balance == "queue" else None,
            "balance": self.balance if is_balanced else None,
            "cost": [*astuple(self.cost)] if is_balanced else None,
            "balance_options": self.balance_options if is_balanced else None,
            "sequences": len(self.lengths),
            "frames": self._frames,
            "names digest": self._names_digest,
            "lengths digest": self._lengths_digest,
        }
        return {key: value for key, value in settings.items() if value is not None}


def as_json_types(value: Any) -> Any:
    """Convert settings to the types that JSON returns: Python numbers, and lists for tuples."""
    if isinstance(value, dict):
        return {key: as_json_types(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_types(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
