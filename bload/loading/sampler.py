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

from bload.errors import InputError, TooLongError, check_whole
from bload.lengths import check_lengths
from bload.loading.ranks import find_place
from bload.packing.block_sizes import sizes_of
from bload.packing.cost import Cost
from bload.packing.packers import make_plan, makes_batches, natural_t_max, packer_options
from bload.packing.plan import Block, InStep, Plan, filler_block
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
        **options: Any,
    ) -> None:
        self.rank, self.world_size = find_place(rank, world_size, process_group)
        self.process_group = process_group
        self.lengths = check_lengths(lengths, names)
        self.packer, self.options = packer, dict(options)
        self.seed = seed
        self.last: Last = last
        self.epoch = self._plan_epoch = 0
        self.t_max = natural_t_max(self.lengths, packer) if t_max is None else t_max
        least = check_whole("t_max", self.t_max, 1)
        self.batch_slots = max(least, check_whole("batch_slots", batch_slots or 0, 0))
        if "batch_slots" in packer_options(packer):
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
            self._plan = self._make_plan()
        self.next_step = 0
        """Step of the epoch at which the next iteration begins."""
        self._yielded = 0
        self._is_loaded = False
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
        return make_plan(*place, block_sizes=self.block_sizes, **self.options)

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
        self._compare_ranks()
        plan, schedule = self.plan, self.schedule
        start, self.next_step, self._is_loaded = self.next_step, 0, False
        for step in range(start, schedule.steps):
            mine = schedule.micro_batches(step, self.rank)
            frames = schedule.frames_in_step(step)
            for number in mine:
                slots, blocks = int(schedule.slots[number]), schedule.blocks(number).tolist()
                self._yielded = step + (number == mine[-1])
                at = InStep(frames, len(mine), number == mine[-1])
                yield [filler_block(slots, at) if b < 0 else plan.block(b, at) for b in blocks]

    def _compare_ranks(self) -> None:
        """Raise InputError on every rank if the ranks differ in plan or position."""
        if not (dist.is_available() and dist.is_initialized()):
            return
        made = self.rank, self.world_size
        group = dist.get_rank(self.process_group), dist.get_world_size(self.process_group)
        if made != group:
            raise InputError(
                f"the loader was made as rank {made[0]} of {made[1]}, but this process is now rank "
                f"{group[0]} of {group[1]}; make it after the process group"
            )
        mine = {"epoch": self.epoch, "step": self.next_step, **self.definition()}
        positions: list[dict[str, Any]] = [{}] * self.world_size
        dist.all_gather_object(positions, mine, self.process_group)
        for rank, position in enumerate(positions):
            for key, value in position.items():
                if value != positions[0][key]:
                    raise InputError(
                        f"ranks have different plans: {key} is {positions[0][key]} on rank 0 and "
                        f"{value} on rank {rank}; give every rank the same lengths, options, epoch "
                        "and saved position"
                    )

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; the current epoch keeps a loaded position.

        Raises:
            InputError: `epoch` is negative, or a loaded position would be lost.
        """
        if index(epoch) < 0:
            raise InputError(f"epoch is {epoch}; epochs count from 0")
        goes_on = epoch == self.epoch + (self.next_step == self.steps)
        if self._is_loaded and epoch != self.epoch and not goes_on:
            raise InputError(
                f"epoch {epoch} begins, but the loaded position is step {self.next_step} of "
                f"epoch {self.epoch}; let the loop begin there: range(loader.epoch, ...)"
            )
        if epoch != self.epoch:
            self.epoch = index(epoch)
            self.next_step = self._yielded = 0

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the epoch, the steps done in it and the definition of the plan, as plain values.

        Args:
            step: steps trained in this epoch. None takes the steps yielded, which is right only if
                no worker prefetches; `BlockLoader` counts the batches that it yields.
        """
        return {
            "epoch": self.epoch,
            "step": self._yielded if step is None else step,
            "plan": plain(self.definition()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position saved in `state`.

        Raises:
            InputError: the state belongs to another plan; the message lists the differences.
        """
        place = (state["epoch"], state["step"]) if {"epoch", "step", "plan"} <= {*state} else ()
        counts = [number for number in place if type(number) is int and number >= 0]
        if len(counts) < 2 or not isinstance(state["plan"], dict):
            raise InputError("this is no state_dict of a BlockSampler or BlockLoader")
        mine, saved = plain(self.definition()), plain(state["plan"])
        differs = [
            f"{key} was {saved.get(key)} and is {mine.get(key)}"
            for key in {**mine, **saved}
            if saved.get(key) != mine.get(key)
        ]
        if differs:
            raise InputError(
                f"the saved position belongs to another plan: {'; '.join(differs)}; "
                f"{self._way_out(saved) or 'restore these settings or start anew'}"
            )
        self.epoch, self.next_step = counts
        self._yielded, self._is_loaded = self.next_step, True

    def _way_out(self, saved: dict[str, Any]) -> str:
        """Return advice to set the `batch_slots` that keeps the saved steps, else nothing."""
        step = {"blocks per step": self.blocks_per_step}
        before = saved.get("blocks per step", 0)
        share, rest = divmod(before, self.world_size * self.micro_batches)
        if plain({**self.definition(), **step}) != {**saved, **step} or rest or not share:
            return ""
        return f"with {self.world_size} ranks, set batch_slots to {share * self.plan.t_max}"

    def definition(self) -> dict[str, Any]:
        """Return all settings that determine the blocks of a step, as plain values."""
        return {
            "packer": self.packer,
            "t_max": self.t_max,
            "options": packer_options(self.packer) | self.options,
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
        if self.block_sizes:
            found |= {"block_sizes": [*self.block_sizes], "batch_slots": self.batch_slots}
        if makes_batches(self.packer):
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
