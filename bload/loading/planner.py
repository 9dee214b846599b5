"""What an epoch is: its plan and its schedule follow from lengths, options, seed and number.

Planner + number of the epoch -> Plan -> Schedule -> batches of each rank
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bload.batch.step import Step, StepList
from bload.errors import InputError, check_whole, plural
from bload.lengths import freeze_lengths
from bload.packing.block_sizes import check_sizes, choose_sizes
from bload.packing.cost import COST_PER_SLOT, Cost
from bload.packing.packers import find_packer, make_plan, natural_t_max
from bload.packing.pieces import check_fit
from bload.packing.plan import Plan, filler_block, round_up
from bload.schedule.balance import Last, make_schedule
from bload.schedule.schedule import EpochAccount, Schedule


class Position(NamedTuple):
    """Position of a sampler: the whole of its state."""

    epoch: int = 0
    step: int = 0
    """Steps of the epoch that are done."""
    first_step: int = 0
    """Step from which on steps have the present size; earlier ones had another (`elastic`)."""
    first_block: int = 0
    """Block with which `first_step` begins, in its chunk."""
    chunk: int = 0
    """Chunk with which `first_step` begins; 0 if a whole epoch is planned."""


class Planner:
    """All epochs of one data set under one set of options; it keeps the plan of one of them.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        packer: a key of `bload.PACKERS`.
        world_size: number of ranks.
        options: the packer's own. `bload.BlockLoader` describes the other arguments.

    Raises:
        InputError: invalid lengths or options.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        packer: str,
        *,
        world_size: int = 1,
        batch_slots: int | None = None,
        t_max: int | None = None,
        seed: int = 0,
        last: Last = "fill",
        names: Sequence[str] | None = None,
        block_sizes: int | Sequence[int] = 1,
        micro_batches: int = 1,
        balance: str = "none",
        cost: Cost = COST_PER_SLOT,
        multiple_of: int = 1,
        **options: Any,
    ) -> None:
        self.names = None if names is None else [*map(str, names)]
        self.lengths, self.frames, self._lengths_digest = freeze_lengths(lengths, self.names)
        self._names_digest = self.names and sha256(repr(self.names).encode()).hexdigest()[:16]
        self.packer, self.options, self.last = packer, options, last
        self.seed = check_whole("seed", seed, 0)
        self.world_size, self.even = world_size, balance != "uneven"
        self.multiple_of = check_whole("multiple_of", multiple_of, 1, 2**17)
        natural, rule = natural_t_max(self.lengths, packer, self.multiple_of), find_packer(packer)
        most = max(natural, self.frames, 2**17)  # more would be padding alone
        self.t_max = check_whole("t_max", natural if t_max is None else t_max, 1, most)
        long, carries = {**rule.options, **options}.get("long"), not rule.makes_batches
        check_fit(self.lengths, self.t_max, long, self.names, self.multiple_of, carries)
        self.batch_slots = max(self.t_max, check_whole("batch_slots", batch_slots or 0, 0))
        if "batch_slots" in rule.options:
            self.options["batch_slots"] = self.batch_slots
        self.micro_batches = check_whole("micro_batches", micro_batches, 1)
        self.blocks_per_batch = self.batch_slots // self.t_max
        """Blocks of the largest size in a batch."""
        self.blocks_per_step = self.world_size * self.micro_batches * self.blocks_per_batch
        """Most blocks of `t_max` slots in a step, over all ranks."""
        if not isinstance(cost, Cost):
            raise InputError(f"cost is {cost!r}; give a bload.Cost, such as that of bload.fit_cost")
        self.balance, self.cost = balance, cost
        self.block_sizes: tuple[int, ...] = ()
        sizes = self._find_block_sizes(block_sizes)
        self.block_sizes = sizes if len(sizes) > 1 else ()
        self._plan: Plan | None = None
        self._schedule: Schedule | None = None
        self._epoch = 0  # of the plan
        self.check()

    def _find_block_sizes(self, block_sizes: int | Sequence[int]) -> tuple[int, ...]:
        """Return the sizes that are given, or as many as that with which an epoch costs least."""
        if not isinstance(block_sizes, int | np.integer) or block_sizes < 1:
            return check_sizes(block_sizes, self.t_max)
        if block_sizes == 1:
            return ()
        plan = self.make_plan_of(0)
        given = plan.sequence_lengths, self.t_max, int(block_sizes), self.batch_slots, self.cost
        sizes = choose_sizes(*given, one_each=plan.num_segments == plan.num_blocks)
        return tuple(np.unique(round_up(np.array(sizes), self.multiple_of)).tolist())

    def check(self) -> None:
        """Build a schedule, so that invalid options fail now, not at step 0."""
        self.schedule(Position())

    def obstacle(self) -> str:
        """Return the option that forbids steps of another size in mid-epoch, or ""."""
        options = {
            "long=carry": self.options.get("long") == "carry",
            f"packer={self.packer}": find_packer(self.packer).makes_batches,
            f"balance={self.balance}": self.balance in ("window", "queue"),
            "last=drop": self.last == "drop",
            "block_sizes": bool(self.block_sizes),
        }
        return next((option for option, is_set in options.items() if is_set), "")

    def make_plan_of(self, epoch: int) -> Plan:
        arguments = self.lengths, self.packer, self.t_max, self.seed, epoch
        options: dict[str, Any] = {"multiple_of": self.multiple_of, **self.options}
        return make_plan(*arguments, block_sizes=self.block_sizes, **options)

    def plan(self, epoch: int) -> Plan:
        """Return the plan of an epoch, the same on every rank."""
        if self._plan is None or self._epoch != epoch:
            self._plan = self._schedule = None  # freed before the new ones are made
            self._plan, self._epoch = self.make_plan_of(epoch), epoch
        return self._plan

    def first_block(self, position: Position) -> int:
        """Return the block of the whole epoch with which ``position.first_step`` begins."""
        return position.first_block

    def schedule(self, position: Position) -> Schedule:
        """Return an epoch's schedule from ``position.first_step`` on, the same on every rank."""
        plan, first_block = self.plan(position.epoch), self.first_block(position)
        if self._schedule is None or self._schedule.first_block != first_block:
            self._schedule = make_schedule(
                plan,
                self.world_size,
                self.batch_slots,
                micro_batches=self.micro_batches,
                balance=self.balance,
                cost=self.cost,
                last=self.last,
                rng=np.random.default_rng([self.seed, position.epoch, 1]),
                first_block=first_block,
            )
        return self._schedule

    def steps(self, position: Position) -> int | None:
        """Return the steps of an epoch, the same on every rank; None if not known yet."""
        return position.first_step + self.schedule(position).steps

    def account(self, position: Position) -> EpochAccount:
        """Return counts of an epoch over all ranks, with the steps before `first_step`."""
        account = self.schedule(position).account
        return replace(account, steps=position.first_step + account.steps)

    def batches(self, position: Position, rank: int) -> Iterator[StepList]:
        """Yield the blocks of each batch of a rank from ``position.step`` on."""
        schedule = self.schedule(position)
        for step in range(position.step - position.first_step, schedule.steps):
            micro_batches = schedule.batches_of(step, rank)
            frames, count = schedule.frames_in_step(step), len(micro_batches)
            for micro_batch in micro_batches:
                ends = micro_batch == micro_batches[-1]
                slots, blocks = int(schedule.slots[micro_batch]), schedule.blocks_of(micro_batch)
                yield StepList(
                    (schedule.plan.block(b) if b >= 0 else filler_block(slots) for b in blocks),
                    Step(position.epoch, frames, count, ends, self.world_size, self.even),
                )

    def normalise(self, position: Position) -> Position:
        """Return the position as it is saved."""
        return position

    def resize(self, position: Position, before: int) -> Position:
        """Return a position from which steps go on with another size than `before` blocks."""
        if position.step == position.first_step:
            return position
        block = position.first_block + (position.step - position.first_step) * before
        block = min(block, self.plan(position.epoch).num_blocks)
        return position._replace(first_step=position.step, first_block=block)

    def describe(self, position: Position) -> str:
        """Return what an epoch is, in a line."""
        account, plan = self.account(position), self.plan(position.epoch)
        per_rank = f" x {self.micro_batches} batches" if self.micro_batches > 1 else ""
        most = -(-plan.num_blocks // (self.world_size * self.micro_batches))  # in a single step
        if plan.has_one_size and (blocks := min(self.blocks_per_batch, most)) > 1:
            per_rank += f"{' of' if per_rank else ' x'} {blocks} blocks"
        block = self.schedule(Position(position.epoch)).block  # some are not, under last="drop"
        trained = len(np.unique(plan.sequence[np.isin(plan.block_of_segment(), block)]))
        rows = int(round_up(np.array(trained), self.world_size * self.micro_batches))
        ratio = rows * int(self.lengths.max()) / account.processed  # each padded to the longest
        saving = f"{ratio:.1f}x fewer" if ratio >= 1 else f"{1 / ratio:.1f}x more"
        deleted = f"{account.deleted:,} frames deleted, " if account.deleted else ""
        size = "" if plan.has_one_size else "up to "
        return (
            f"{plural(account.blocks, 'block')} of {size}{plan.t_max:,}, "
            f"{100 * account.padding / (account.frames + account.padding):.2f} % padding, {deleted}"
            f"{plural(account.steps, 'step')} x {plural(self.world_size, 'rank')}{per_rank}, "
            f"{trained / max(account.steps, 1):.1f} sequences a step"
            f"{'' if deleted else f', {saving} slots than padding'}"
        )

    def definition(self) -> dict[str, Any]:
        """Return the settings that determine the blocks of a step, except those without effect."""
        sizes, is_balanced = self.block_sizes, self.balance != "none"
        rule, batches_per_step = find_packer(self.packer), self.world_size * self.micro_batches
        settings = {
            "packer": self.packer,
            "t_max": self.t_max,
            "options": {k: value for k, value in self.options.items() if value != rule.options[k]},
            "seed": self.seed,
            "last": self.last,
            "blocks per step": self.blocks_per_step,
            "multiple_of": self.multiple_of if self.multiple_of > 1 else None,
            "block_sizes": [*sizes] if sizes else None,
            "batch_slots": self.batch_slots if sizes else None,
            "batches per step": batches_per_step if rule.makes_batches else None,
            "balance": self.balance if is_balanced else None,
            "ranks": self.world_size if self.balance == "queue" else None,
            "cost": [*astuple(self.cost)] if is_balanced else None,
            "sequences": len(self.lengths),
            "frames": self.frames,
            "names digest": self._names_digest,
            "lengths digest": self._lengths_digest,
        }
        return {k: as_json_types(value) for k, value in settings.items() if value is not None}


def as_json_types(value: Any) -> Any:
    """Convert settings to the types that JSON returns: Python numbers, and lists for tuples."""
    return json.loads(json.dumps(value, default=lambda value: value.tolist()))


def with_checksum(state: dict[str, Any]) -> dict[str, Any]:
    """Return a position with a checksum, by which a damaged one is known."""
    digest = sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return {**state, "checksum": digest[:16]}


def check_position(state: Any, key: str, kind: str) -> None:
    """Raise `InputError` unless a position is as `with_checksum` returned it, and has a key."""
    with suppress(TypeError, ValueError, AttributeError):
        content = {name: value for name, value in state.items() if name != "checksum"}
        if key in content and with_checksum(content) == state:
            return
    raise InputError(f"this is no state_dict of a {kind}")
