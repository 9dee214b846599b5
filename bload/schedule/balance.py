"""Schedule of a plan: equal steps by construction, for any number of ranks.

    lengths -> Plan -> Cost -> order -> share -> Schedule

An order assigns units to steps, ``order(cost_U, size, ranks, rng) -> [units of step 0, ...]``. A
unit is a block, or a micro-batch if blocks have several sizes; a step has `size` units, the last
one at most that. A share assigns the units of a step to ranks, ``share(cost_U, ranks) -> rank_U``.

A rank computes its part of a step in one or more micro-batches, each of blocks of one size; then
all ranks take one optimiser step together. With blocks of one size, a step depends only on its
number of blocks: 2 ranks of 4 and 8 ranks of 1 train the same steps, except with `queue`.
"""

import heapq
from collections.abc import Callable
from typing import Literal

import numpy as np

from bload.errors import InputError, check_choice, check_whole
from bload.packing.cost import COST_PER_SLOT, Cost
from bload.packing.pieces import index_within
from bload.packing.plan import Plan
from bload.schedule.carried_rows import place_in_rows
from bload.schedule.schedule import Schedule

Last = Literal["fill", "drop"]
Steps = list[np.ndarray]
"""Units of each step, ``(units,)``."""
WINDOW = 16
"""Steps whose units `window` sorts together."""
LEVELS = 0.7, 0.85, 0.95
"""Quantiles of the cost at which the levels of `queue` begin."""


def _cut(units: np.ndarray, size: int) -> Steps:
    return [units[i : i + size] for i in range(0, len(units), size)]


def _in_order(cost_U: np.ndarray, size: int, ranks: int, rng: np.random.Generator) -> Steps:
    """Keep the order of the plan, so that every step is a random draw."""
    return _cut(np.arange(len(cost_U)), size)


def _window(cost_U: np.ndarray, size: int, ranks: int, rng: np.random.Generator) -> Steps:
    """Sort units by cost within windows of 16 steps, and shuffle the steps of each window.

    Steps of similar cost need no further balance, but the order is less random.
    """
    ordered: list[np.ndarray] = []
    for units in _in_order(cost_U, size * WINDOW, ranks, rng):
        units = units[np.argsort(-cost_U[units], kind="stable")]
        steps, full = _cut(units, size), len(units) // size
        ordered += [steps[i] for i in rng.permutation(full)] + steps[full:]
    return ordered


def _queue(cost_U: np.ndarray, size: int, ranks: int, rng: np.random.Generator) -> Steps:
    """Hold costly units back, by level, until there is one for every rank.

    It follows the outlier queues of WLB-LLM (arXiv 2503.17924).
    """
    level_U = np.searchsorted(np.quantile(cost_U, LEVELS), cost_U, side="right")
    waiting: list[list[int]] = [[] for _ in range(len(LEVELS) + 1)]
    ordered: list[np.ndarray] = []
    ready: list[int] = []  # costly units, added by groups of one per rank
    cheap = waiting[0]
    for unit, level in enumerate(level_U.tolist()):
        waiting[level].append(unit)
        if level and len(waiting[level]) == ranks:
            ready += waiting[level]
            waiting[level] = []
        costly = min(len(ready), size)
        if costly + len(cheap) >= size:
            ordered.append(np.array(ready[:costly] + cheap[: size - costly]))
            del ready[:costly], cheap[: size - costly]
    rest = np.array([*ready, *(u for units in waiting for u in units)], dtype=np.int64)
    rest = rest[np.argsort(-cost_U[rest], kind="stable")]
    return ordered + _cut(rest, size)


def _round_robin(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign units to ranks in turn, as cards are dealt."""
    return np.arange(len(cost_U)) % ranks


def equal_counts(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Give all ranks equal numbers of units at about equal cost, by differencing.

    Karmarkar and Karp (1982) with equal numbers: start with groups of one unit per rank; join the
    two with the widest range of costs, the costliest of one with the cheapest of the other.
    """
    cost_V = np.pad(cost_U, (0, -len(cost_U) % ranks))  # with units that cost nothing
    order_GR = np.argsort(-cost_V, kind="stable").reshape(-1, ranks)
    groups = [(cost_V[units_R], units_R[:, None]) for units_R in order_GR]
    heap = [(-float(np.ptp(sums_R)), k) for k, (sums_R, _) in enumerate(groups)]
    heapq.heapify(heap)
    while len(heap) > 1:
        first_R, first_units = groups[heapq.heappop(heap)[1]]
        second_R, second_units = groups[heapq.heappop(heap)[1]]
        down, up = np.argsort(-first_R, kind="stable"), np.argsort(second_R, kind="stable")
        sums_R = first_R[down] + second_R[up]
        heapq.heappush(heap, (-float(np.ptp(sums_R)), len(groups)))
        groups.append((sums_R, np.concatenate([first_units[down], second_units[up]], axis=1)))
    rank_V = np.empty(len(cost_V), dtype=np.int64)
    rank_V[groups[-1][1]] = np.arange(ranks)[:, None]
    return rank_V[: len(cost_U)]


def _greedy(cost_U: np.ndarray, ranks: int) -> np.ndarray:
    """Assign the costliest unit first, to the rank that is done first; numbers may differ."""
    rank_U = np.zeros(len(cost_U), dtype=np.int64)
    heap = [(0.0, 0, rank) for rank in range(ranks)]  # on a tie, the rank with fewest units
    for unit in np.argsort(-cost_U, kind="stable").tolist():
        load, count, rank_U[unit] = heap[0]
        heapq.heapreplace(heap, (load + float(cost_U[unit]), count + 1, int(rank_U[unit])))
    return rank_U


Order = Callable[[np.ndarray, int, int, np.random.Generator], Steps]
Share = Callable[[np.ndarray, int], np.ndarray]
BALANCES: dict[str, tuple[Order, Share]] = {
    "none": (_in_order, _round_robin),
    "pairs": (_in_order, equal_counts),
    "uneven": (_in_order, _greedy),  # ranks get different numbers
    "window": (_window, equal_counts),
    "queue": (_queue, equal_counts),
}
"""Order and share of each balance, by name."""


def make_schedule(
    plan: Plan,
    world_size: int = 1,
    batch_slots: int | None = None,
    *,
    micro_batches: int = 1,
    balance: str = "none",
    cost: Cost = COST_PER_SLOT,
    last: Last = "fill",
    rng: np.random.Generator | None = None,
    first_block: int = 0,
) -> Schedule:
    """Assign the blocks of a plan to steps, ranks and micro-batches.

    Args:
        batch_slots: slots in a micro-batch, rounded down to whole blocks, at least one.
        micro_batches: micro-batches per rank and step; the last step may have fewer.
        balance: a key of `BALANCES`. Fillers even out ranks' micro-batches, except with ``uneven``.
        cost: cost of a block, used by all but ``none``.
        last: what happens to a last step that the plan does not fill: ``fill`` adds empty blocks,
            ``drop`` leaves its blocks out, counted as deleted. No sequence is ever repeated.
        first_block: block at which the schedule begins, for orders that keep the plan's.

    Raises:
        InputError: an option is out of range, or dropping would leave no step.
    """
    check_choice("last", last, ("fill", "drop"))
    check_choice("balance", balance, BALANCES)
    order, share = BALANCES[balance]
    ranks = check_whole("world_size", world_size, 1)
    batch_slots = max(check_whole("batch_slots", batch_slots or 0, 0), plan.t_max)
    rows = batch_slots // plan.t_max
    rng = rng or np.random.default_rng(0)
    size = ranks * rows * micro_batches
    if plan.carries and balance != "none":
        raise InputError(
            f"balance={balance} moves blocks, and long=carry keeps rows together; use balance=none"
        )
    block_B, unit_offsets = _make_units(plan, batch_slots)
    cost_U = np.add.reduceat(cost.of_blocks(plan)[block_B], unit_offsets[:-1])
    if not plan.has_one_size:
        rows, size = 1, ranks * micro_batches  # a unit is a micro-batch already
        cost_U = cost_U + cost.of_shape(plan.slots[block_B[unit_offsets[:-1]]])
    if plan.carries:
        if size > max(2 * plan.num_blocks, 1024):
            raise InputError(
                f"a step of all ranks takes {size} rows and the epoch has {plan.num_blocks} "
                "blocks; lower batch_slots or micro_batches"
            )
        steps = [*place_in_rows(plan, size, rng)]
    else:
        steps = [step + first_block for step in order(cost_U[first_block:], size, ranks, rng)]
    if last == "drop":
        steps = [step for step in steps if len(step) == size and step.min() >= 0]
        if not steps:
            kind = "blocks" if plan.has_one_size else "batches"
            raise InputError(
                f"the plan has {len(cost_U)} {kind} but one step of all ranks takes {size}; lower "
                f"batch_slots or set last=fill"
            )
    shares = [share(cost_U[step], ranks) for step in steps]
    unit_MR, rank_offsets = _deal(steps, shares, ranks, rows, plan.carries, balance != "uneven")
    unit_E, rows = unit_MR.ravel(), unit_MR.shape[1]
    size_E = np.append(np.diff(unit_offsets), 1)[unit_E]  # a filler is one block
    entry = np.repeat(unit_offsets[unit_E], size_E) + index_within(size_E)
    block = np.append(block_B, -1)[entry]
    offsets = np.append(0, np.cumsum(size_E))[::rows]
    slots = np.append(plan.slots, plan.slots.min())[block[offsets[:-1]]]
    return Schedule(plan, ranks, block, slots, offsets, rank_offsets, first_block)


def _deal(
    steps: Steps, shares: Steps, ranks: int, rows: int, fixed_rows: bool, even: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of every micro-batch, ``(.., rows)``, -1 for a filler, and rank offsets."""
    # A group is the units of a rank in a step; it takes micro-batches of `rows` units.
    groups = [s * ranks + rank_U for s, rank_U in enumerate(shares)]
    group, unit = (np.concatenate([[], *of]).astype(np.int64) for of in (groups, steps))
    by_group = np.argsort(group, kind="stable")
    group, unit = group[by_group], unit[by_group]
    count_G = np.bincount(group, minlength=len(steps) * ranks)
    if not fixed_rows:
        rows = min(rows, int(count_G.max(initial=1)))  # one step may be all
    micro_SR = np.maximum(-(-count_G // rows), 1).reshape(-1, ranks)
    if even:
        micro_SR = micro_SR.max(axis=1, keepdims=True).repeat(ranks, axis=1)
    rank_offsets = np.append(0, np.cumsum(micro_SR))
    unit_MR = np.full((rank_offsets[-1], rows), -1)
    unit_MR.flat[rank_offsets[group] * rows + index_within(count_G)] = unit
    return unit_MR, rank_offsets


def _make_units(plan: Plan, batch_slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return single blocks, or micro-batches of one size if the plan has several sizes.

    Unit u holds ``block_B[offsets[u]:offsets[u + 1]]``.
    """
    if plan.has_one_size or len(plan.batches):
        offsets = np.arange(plan.num_blocks + 1) if plan.has_one_size else plan.batches
        return np.arange(plan.num_blocks), offsets
    by_size = np.argsort(plan.slots, kind="stable")
    slots = plan.slots[by_size]
    nth = np.arange(plan.num_blocks) - np.searchsorted(slots, slots)  # index among its size
    first = np.flatnonzero(nth % (batch_slots // slots) == 0)
    units = np.split(by_size, first[1:])
    units.sort(key=lambda blocks: int(blocks[0]))  # in the plan's order, which is random
    return np.concatenate(units), np.cumsum([0, *map(len, units)])
