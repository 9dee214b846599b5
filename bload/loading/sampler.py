"""Batch sampler of an epoch's plan for torch's DataLoader, with exact resume."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from operator import index
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from bload.batch.step import Step, StepList
from bload.errors import InputError, TooLongError, check_whole, differences
from bload.lengths import check_lengths
from bload.loading.ranks import check_place, difference_of_ranks, find_place, has_group
from bload.packing.block_sizes import sizes_of
from bload.packing.cost import Cost
from bload.packing.packers import find_packer, make_plan, natural_t_max
from bload.packing.plan import Block, Plan, filler_block, round_up
from bload.schedule.balance import Last, check_options, make_schedule
from bload.schedule.schedule import SLOTS, EpochAccount, Schedule


class BlockSampler(Sampler[list[Block]]):
    """Yields the blocks of one rank by micro-batch; every rank takes the same number of steps.

    Use it as the ``batch_sampler`` of a DataLoader over a `BlockDataset`. It yields `Block` values
    instead of numbers, so worker processes need no plan and may persist over epochs.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        packer: a key of `bload.PACKERS`; this and all other arguments are as in `BlockLoader`.

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
        cost: Cost = SLOTS,
        balance_options: Mapping[str, Any] | None = None,
        multiple_of: int = 1,
        **options: Any,
    ) -> None:
        self.rank, self.world_size = find_place(rank, world_size, process_group)
        self.process_group = process_group
        names = None if names is None else [*names]  # pandas would look for labels
        self._names_digest = names and hashlib.sha256(repr(names).encode()).hexdigest()[:16]
        self.lengths = check_lengths(lengths, names)
        self.packer, self.options = packer, dict(options)
        self.seed = seed
        self.last: Last = last
        self.epoch = self._plan_epoch = 0
        self.multiple_of = check_whole("multiple_of", multiple_of, 1)
        natural = natural_t_max(self.lengths, packer, self.multiple_of)
        self.t_max = natural if t_max is None else t_max
        least = check_whole("t_max", self.t_max, 1)
        self.batch_slots = max(least, check_whole("batch_slots", batch_slots or 0, 0))
        if "batch_slots" in find_packer(packer).options:
            self.options["batch_slots"] = self.batch_slots
        self.block_sizes: tuple[int, ...] = ()
        try:
            self._plan = self._make_plan()
        except TooLongError as error:
            raise (error if names is None else error.named(names)) from None
        check_options(balance, cost, balance_options or {})
        self.micro_batches, self.even = micro_batches, even
        self.balance, self.cost, self.balance_options = balance, cost, dict(balance_options or {})
        self._schedule: Schedule | None = None
        self.block_sizes = sizes_of(block_sizes, self._plan, self.t_max, self.batch_slots, cost)
        if self.block_sizes:
            sizes = round_up(np.array(self.block_sizes), self.multiple_of)
            self.block_sizes = tuple(sorted({*sizes.tolist()}))
            self._plan = self._make_plan()
        self.step = 0
        """Steps of the current epoch that are done."""
        self.is_driven = False
        """True if a `BlockLoader` sets `step` to what it has yielded, so that workers may prefetch
        and a pass after a finished one is the next epoch."""
        self.shared: dict[str, Any] = {}
        """More that ranks must agree on, such as a loader's padding."""
        self._first_step = 0
        """Step at which the next pass begins, unless this one is finished."""
        self._is_loaded = False
        self._passes = 0
        self._digest = hashlib.sha256(self.lengths.tobytes()).hexdigest()[:16]
        len(self)  # raises now, not at step 0, if options are invalid or all steps dropped

    @property
    def sampler(self) -> "BlockSampler":
        """This sampler; trainers such as Lightning and Accelerate set the epoch on it."""
        return self

    @property
    def blocks_per_batch(self) -> int:
        """Blocks of the largest size in a batch."""
        return self.batch_slots // self.plan.t_max

    @property
    def blocks_per_step(self) -> int:
        """Blocks of `t_max` slots in a step, over all ranks."""
        return self.world_size * self.micro_batches * self.blocks_per_batch

    @property
    def plan(self) -> Plan:
        """Plan of the current epoch, the same on every rank."""
        if self._plan_epoch != self.epoch:
            self._plan = self._make_plan()
            self._plan_epoch = self.epoch
        return self._plan

    def _make_plan(self) -> Plan:
        place = self.lengths, self.packer, self.t_max, self.seed, self.epoch
        return make_plan(
            *place, block_sizes=self.block_sizes, multiple_of=self.multiple_of, **self.options
        )

    @property
    def schedule(self) -> Schedule:
        """Schedule of the current epoch, the same on every rank."""
        plan = self.plan
        if self._schedule is None or self._schedule.plan is not plan:
            self._schedule = make_schedule(
                plan,
                self.world_size,
                self.batch_slots,
                micro_batches=self.micro_batches,
                balance=self.balance,
                cost=self.cost,
                last=self.last,
                even=self.even,
                rng=np.random.default_rng([self.seed, self.epoch, 1]),
                **self.balance_options,
            )
        return self._schedule

    @property
    def account(self) -> EpochAccount:
        """Cost of the current epoch, over all ranks."""
        return self.schedule.account

    @property
    def steps(self) -> int:
        """Steps of the current epoch, the same on every rank."""
        return self.schedule.steps

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
        return int(np.diff(self.schedule.shares)[self.rank :: self.world_size].sum())

    def __iter__(self) -> Iterator[list[Block]]:
        self.begin_pass()
        for blocks in self.batches():
            if not self.is_driven:
                self.step += blocks.step.ends
            yield blocks

    def begin_pass(self) -> int:
        """Go to where the next pass begins, compare the ranks, and return the number of the pass.

        That is a loaded position, else the beginning of the epoch, or of the next one if a loader
        has finished the epoch. A pass that was broken off begins again.
        """
        if self._is_finished and not self._is_loaded:
            self.epoch += self.is_driven
            self._first_step = 0
        self.step, self._is_loaded = self._first_step, False
        self._passes += 1
        self._compare_ranks()
        return self._passes

    def batches(self) -> Iterator[StepList]:
        """Yield the blocks of each batch of the pass under way.

        Raises:
            InputError: in place of the next batch, if the sampler has been moved meanwhile.
        """
        number, epoch, schedule = self._passes, self.epoch, self.schedule
        for step in range(self.step, schedule.steps):
            micro_batches = schedule.micro_batches(step, self.rank)
            frames = schedule.frames_in_step(step)
            for micro_batch in micro_batches:
                self.check_pass(number)
                ends = micro_batch == micro_batches[-1]
                at = Step(epoch, frames, len(micro_batches), ends, self.world_size)
                slots, blocks = int(schedule.slots[micro_batch]), schedule.blocks(micro_batch)
                yield StepList(
                    (schedule.plan.block(b) if b >= 0 else filler_block(slots) for b in blocks), at
                )

    def check_pass(self, number: int) -> None:
        """Raise `InputError` if another pass, epoch or position has begun since pass `number`."""
        if number != self._passes:
            raise InputError(
                "this iterator ended when another of the same loader began, or when set_epoch or "
                "load_state_dict moved it; begin a new one, or make a loader for each"
            )

    @property
    def _is_finished(self) -> bool:
        return self.step > 0 and self.step == self.steps

    def _compare_ranks(self) -> None:
        """Raise InputError on every rank if the ranks differ in plan or position."""
        if not has_group():
            return
        check_place(self.rank, self.world_size, self.process_group)
        position = plain({"epoch": self.epoch, "step": self.step, **self._shared()})
        positions: list[dict[str, Any]] = [{}] * self.world_size
        dist.all_gather_object(positions, position, self.process_group)
        if fault := difference_of_ranks(positions):
            raise InputError(
                f"ranks have different plans: {fault}; give every rank the same lengths, options, "
                "epoch and saved position"
            )

    def _shared(self) -> dict[str, Any]:
        """Return all that ranks must agree on: the definition, and how a step is divided."""
        return {
            **self.definition(),
            "micro_batches": self.micro_batches,
            "blocks per batch": self.blocks_per_batch,
            "even": self.even,
            "balance": self.balance,
            "cost": [*astuple(self.cost)],
            "balance_options": self.balance_options,
            "names digest": self._names_digest,
            **self.shared,
        }

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, which ends an iteration of another epoch.

        The current epoch keeps a loaded position and an iteration under way; if it is finished, it
        begins again.

        Raises:
            InputError: `epoch` is negative, or a loaded position would be lost.
        """
        check_whole("epoch", epoch, 0)
        if self._is_loaded and epoch not in (self.epoch, self.epoch + self._is_finished):
            raise InputError(
                f"epoch {epoch} begins, but the loaded position is step {self.step} of "
                f"epoch {self.epoch}; let the loop begin there: range(loader.epoch, ...)"
            )
        if epoch != self.epoch:
            self._passes += 1
            self.epoch, self._is_loaded = index(epoch), False
            self.step = self._first_step = 0
        elif self._is_finished and not self._is_loaded:
            self.step = self._first_step = 0

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the epoch, the steps done in it and the definition of the plan, as plain values.

        Args:
            step: steps trained in this epoch. None takes the steps yielded, which is right only if
                no worker prefetches, or if a loader counts the batches that it yields.
        """
        return {
            "epoch": self.epoch,
            "step": self.step if step is None else step,
            "plan": plain(self.definition()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position saved in `state`, see `check_state`."""
        self.epoch, self.step, _ = self.check_state(state)
        self._first_step, self._is_loaded = self.step, True
        self._passes += 1

    def check_state(self, state: dict[str, Any]) -> tuple[int, int, int]:
        """Return the epoch and the step of a position, and the steps of that epoch.

        Raises:
            InputError: the state belongs to another plan; the message lists the differences. Or
                its step is beyond the end of its epoch.
        """
        if not isinstance(state, dict):
            raise InputError("this is no state_dict of a BlockSampler or BlockLoader")
        place = (state["epoch"], state["step"]) if {"epoch", "step", "plan"} <= {*state} else ()
        counts = [number for number in place if type(number) is int and number >= 0]
        if len(counts) < 2 or not isinstance(state["plan"], dict):
            raise InputError("this is no state_dict of a BlockSampler or BlockLoader")
        saved = plain(state["plan"])
        if changes := differences(saved, plain(self.definition())):
            raise InputError(
                f"the saved position belongs to another plan: {changes}; "
                f"{self._way_out(saved) or 'restore these settings or start anew'}"
            )
        (epoch, step), now = counts, self.epoch
        try:
            self.epoch = epoch
            steps = self.steps
        finally:
            self.epoch = now
        if step > steps:
            raise InputError(
                f"the saved position is step {step} of epoch {epoch}, which has {steps} steps; "
                "load a position as it was saved"
            )
        return epoch, step, steps

    def _way_out(self, saved: dict[str, Any]) -> str:
        """Return advice to set the `batch_slots` that keeps the saved steps, else nothing."""
        step = {"blocks per step": self.blocks_per_step}
        before = saved.get("blocks per step")
        if plain({**self.definition(), **step}) != {**saved, **step} or type(before) is not int:
            return ""
        share, rest = divmod(before, self.world_size * self.micro_batches)
        if rest or share < 1:
            return ""
        return f"with {self.world_size} ranks, set batch_slots to {share * self.plan.t_max}"

    def definition(self) -> dict[str, Any]:
        """Return all settings that determine the blocks of a step, as plain values."""
        return {
            "packer": self.packer,
            "t_max": self.t_max,
            "options": find_packer(self.packer).options | self.options,
            "seed": self.seed,
            "last": self.last,
            "blocks per step": self.blocks_per_step,
            **self._balance_definition(),
            "sequences": len(self.lengths),
            "frames": int(self.lengths.sum()),
            "lengths digest": self._digest,
        }

    def _balance_definition(self) -> dict[str, Any]:
        """Return the settings that matter only if blocks differ in cost or size."""
        found: dict[str, Any] = {}
        if self.multiple_of > 1:
            found["multiple_of"] = self.multiple_of
        if self.block_sizes:
            found |= {"block_sizes": [*self.block_sizes], "batch_slots": self.batch_slots}
        if find_packer(self.packer).makes_batches:
            found["batches per step"] = self.world_size * self.micro_batches
        if self.balance == "queue":
            found["ranks"] = self.world_size
        if self.balance != "none":
            found |= {
                "balance": self.balance,
                "cost": [*astuple(self.cost)],
                **self.balance_options,
            }
        return found


def plain(value: Any) -> Any:
    """Convert settings to the types that JSON returns: Python numbers, and lists for tuples."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
