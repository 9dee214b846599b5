"""Schedule of a plan: equal steps by construction, for any number of ranks.

    lengths -> Plan -> Cost -> order -> share -> Schedule

An order assigns blocks to steps; a share assigns the blocks of a step to ranks. A rank computes its
part of a step in one or more micro-batches, each of blocks of one size; then all ranks take one
optimiser step together. With blocks of one size, a step depends only on its number of blocks: 2
ranks of 4 blocks and 8 ranks of 1 block train the same steps, except with `queue`.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Literal, NamedTuple

import numpy as np

from bload.errors import InputError, check_choice, check_whole
from bload.packing.cost import Cost
from bload.packing.pieces import index_within
from bload.packing.plan import Plan
from bload.schedule import orders, shares
from bload.schedule.carried_rows import place_in_rows
from bload.schedule.schedule import COST_PER_SLOT, Schedule

Last = Literal["fill", "drop"]
MAX_BLOCKS = 10**8
"""Largest number of blocks in a step, including fillers."""
Order = Callable[..., list[np.ndarray]]
Share = Callable[[np.ndarray, int], np.ndarray]
BALANCES: dict[str, tuple[Order, Share]] = {
    "none": (orders.keep_order, shares.round_robin),
    "pairs": (orders.keep_order, shares.equal_counts),
    "counts": (orders.keep_order, shares.greedy),
    "window": (orders.window, shares.equal_counts),
    "queue": (orders.queue, shares.equal_counts),
}
"""Order and share of each balance, by name."""


def make_schedule(
    plan: Plan,
    ranks: int = 1,
    batch_slots: int | None = None,
    *,
    micro_batches: int = 1,
    balance: str = "none",
    cost: Cost = COST_PER_SLOT,
    last: Last = "fill",
    even: bool = False,
    rng: np.random.Generator | None = None,
    first_block: int = 0,
    **options: Any,
) -> Schedule:
    """Assign the blocks of a plan to steps, ranks and micro-batches.

    Args:
        plan: plan of the epoch.
        ranks: number of ranks.
        batch_slots: slots in a micro-batch, rounded down to whole blocks, at least one.
        micro_batches: micro-batches per rank and step; the last step may have fewer.
        balance: a key of `BALANCES`.
        cost: cost of a block, used by all but ``none``.
        last: what happens to a last step that the plan does not fill: ``fill`` adds empty blocks,
            ``drop`` leaves its blocks out, counted as deleted. No sequence is ever repeated.
        even: give all ranks the same number of micro-batches in a step by adding fillers.
        rng: random generator of the order.
        first_block: block at which the schedule begins, for orders that keep the plan's.
        options: options of the order: ``steps`` of a window, ``levels`` of a queue.

    Raises:
        InputError: an option is unknown or out of range, or dropping would leave no step.
    """
    check_choice("last", last, ("fill", "drop"))
    check_balance(balance, cost, options)
    order, share = BALANCES[balance]
    ranks = check_whole("ranks", ranks, 1)
    micro_batches = check_whole("micro_batches", micro_batches, 1)
    rows = blocks_per_rank(batch_slots or 0, plan.t_max)
    batch_slots = max(batch_slots or 0, plan.t_max)
    if ranks * rows * micro_batches > MAX_BLOCKS:
        raise InputError(
            f"a step of {ranks:,} ranks with {micro_batches:,} batches of {rows:,} blocks has more "
            f"than {MAX_BLOCKS:,} blocks; lower batch_slots or micro_batches"
        )
    rng = rng or np.random.default_rng(0)
    if plan.carries:
        if balance != "none":
            raise InputError(
                f"balance={balance} moves blocks, and long=carry keeps rows together; use "
                "balance=none"
            )
        return _in_rows(plan, ranks, rows, micro_batches, last, rng)
    units = _make_units(plan, batch_slots)
    if not plan.has_one_size:
        rows = 1  # a unit is a micro-batch already
    size = ranks * rows * micro_batches
    cost_U = np.zeros(0)
    if plan.blocks:
        cost_U = np.add.reduceat(cost.of_blocks(plan)[units.block], units.offsets[:-1])
    if not plan.has_one_size:
        cost_U = cost_U + cost.of_shape(plan.slots[units.block[units.offsets[:-1]]])
    steps = order(cost_U[first_block:], size, ranks, rng, **options)
    steps = [step + first_block for step in steps]
    if last == "drop":
        steps = [step for step in steps if len(step) == size]
        _check_any(len(steps), plan, size)
    rank_SU = [share(cost_U[step], ranks) for step in steps]
    return _assign(plan, ranks, units, steps, rank_SU, rows, even)


def check_balance(balance: str, cost: Cost, options: Mapping[str, Any]) -> None:
    """Raise InputError unless `balance` is a key of `BALANCES` that has these options."""
    check_choice("balance", balance, BALANCES)
    if not isinstance(cost, Cost):
        raise InputError(f"cost is {cost!r}; give a bload.Cost")
    parameters = signature(BALANCES[balance][0]).parameters.values()
    known = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            names = ", ".join(known) or "none"
            raise InputError(f"{name!r} is no option of balance={balance}, which has {names}")
    if "steps" in options:
        check_whole("steps", options["steps"], 1)
    if not all(0 <= level <= 1 for level in options.get("levels", ())):
        raise InputError(f"levels is {options['levels']}; give quantiles from 0 to 1")


def _check_any(steps: int, plan: Plan, size: int) -> None:
    """Raise InputError if dropping leaves no step."""
    if not steps:
        raise InputError(
            f"the plan has {plan.blocks} blocks but one step of all ranks takes {size}; lower "
            f"batch_slots or set last=fill"
        )


def _in_rows(
    plan: Plan, ranks: int, rows: int, micro_batches: int, last: Last, rng: np.random.Generator
) -> Schedule:
    """Schedule each block in the row of the block that it continues, one step later."""
    size = ranks * micro_batches * rows
    grid = place_in_rows(plan, size, rng)
    if last == "drop":
        grid = grid[(grid >= 0).all(axis=1)]
        _check_any(len(grid), plan, size)
    batches = len(grid) * ranks * micro_batches
    return Schedule(
        plan,
        ranks,
        grid.reshape(len(grid), -1, ranks).swapaxes(1, 2).ravel(),  # rows go to ranks in turn
        np.full(batches, plan.t_max),
        np.arange(batches + 1) * rows,
        np.arange(len(grid) * ranks + 1) * micro_batches,
    )


class _Units(NamedTuple):
    """Units to order and share: unit u holds ``block[offsets[u]:offsets[u + 1]]``."""

    block: np.ndarray
    offsets: np.ndarray


def _make_units(plan: Plan, batch_slots: int) -> _Units:
    """Return single blocks, or micro-batches of one size if the plan has several sizes."""
    if plan.has_one_size or len(plan.batches):
        offsets = np.arange(plan.blocks + 1) if plan.has_one_size else plan.batches
        return _Units(np.arange(plan.blocks), offsets)
    by_size = np.argsort(plan.slots, kind="stable")
    slots = plan.slots[by_size]
    nth = np.arange(plan.blocks) - np.searchsorted(slots, slots)  # index among blocks of its size
    first = np.flatnonzero(nth % (batch_slots // slots) == 0)
    units = np.split(by_size, first[1:])
    units.sort(key=lambda blocks: int(blocks[0]))  # in the plan's order, which is random
    return _Units(np.concatenate(units), np.cumsum([0, *map(len, units)]))


def _assign(
    plan: Plan,
    ranks: int,
    units: _Units,
    steps: list[np.ndarray],
    rank_SU: list[np.ndarray],
    rows: int,
    even: bool,
) -> Schedule:
    """Put the units of each rank and step, a group, into micro-batches.

    Args:
        rows: units in a micro-batch.
        even: give all ranks of a step the largest number of micro-batches among them.
    """
    group = np.repeat(np.arange(len(steps)) * ranks, [*map(len, steps)])
    group = group + np.concatenate([[], *rank_SU]).astype(np.int64)
    by_group = np.argsort(group, kind="stable")
    group, unit = group[by_group], np.concatenate([[], *steps]).astype(np.int64)[by_group]
    count_G = np.bincount(group, minlength=len(steps) * ranks)
    nth = index_within(count_G)

    micro_SR = np.maximum(-(-count_G // rows), 1).reshape(-1, ranks)
    if even:
        micro_SR = micro_SR.max(axis=1, keepdims=True).repeat(ranks, axis=1)
    first_micro = np.concatenate([[0], np.cumsum(micro_SR)])
    micro = first_micro[group] + nth // rows
    size = np.diff(units.offsets)[unit]
    slots_M = np.full(first_micro[-1], plan.slots.min(initial=plan.t_max))
    slots_M[micro] = plan.slots[units.block[units.offsets[unit]]]
    blocks_M = np.full(first_micro[-1], rows)
    if not plan.has_one_size:
        blocks_M[micro] = size
    offsets = np.concatenate([[0], np.cumsum(blocks_M)])

    block = np.full(offsets[-1], -1)
    within = index_within(size)
    entry = np.repeat(offsets[micro] + nth % rows, size) + within
    block[entry] = units.block[np.repeat(units.offsets[unit], size) + within]
    return Schedule(plan, ranks, block, slots_M, offsets, first_micro)


def blocks_per_rank(batch_slots: int, t_max: int) -> int:
    """Return the number of whole blocks in `batch_slots` slots, at least one."""
    return max(1, check_whole("batch_slots", batch_slots, 0) // t_max)
