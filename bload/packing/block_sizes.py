"""Blocks of several sizes in one plan: short sequences in short blocks take fewer steps.

    sizes 10 and 5      |a a a a a a a|b b b|      a is longer than 5; b fills up its block
                        |c c c|d d|    |e e e e .|

With the same slots in a batch, blocks of half the size make twice the rows, and a loop over time
takes half the steps. No sequence is cut. Two sizes suit packers that fill up blocks: with more,
short sequences run out. For packers with one sequence per block, the sizes are buckets.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bload.errors import InputError
from bload.packing.bounds import lower_bound
from bload.packing.cost import Cost
from bload.packing.pieces import index_within
from bload.packing.plan import Plan, plan_from_arrays

CANDIDATES = 256
"""Most lengths that are candidates for a size, at equal distances among the different lengths."""


def choose_sizes(
    lengths: np.ndarray,
    t_max: int,
    number: int,
    batch_slots: int,
    cost: Cost,
    *,
    one_each: bool = False,
) -> tuple[int, ...]:
    """Return up to `number` block sizes, `t_max` the last, that make an epoch cost least.

    It uses dynamic programming over the lengths, as FlexSP does for its buckets (arXiv 2412.01523):
    blocks of a size hold the sequences that are longer than the next smaller size.

    Args:
        lengths: frames of every sequence, ``(sequences,)``; above `t_max` they count as `t_max`.
        batch_slots: slots in a batch, which holds ``batch_slots // size`` blocks.
    """
    if not one_each and cost.walk == cost.launch == 0:
        cost = Cost(walk=1)  # full blocks of any size have the same total of slots
    lengths = np.sort(np.minimum(lengths, t_max))
    different = np.unique(lengths)
    candidate = np.linspace(0, len(different) - 1, CANDIDATES).astype(int)
    fractions = [t_max // n for n in (1, 2, 3, 4)]
    size_K = np.unique([0, *different[candidate], *fractions])
    rows_K = batch_slots // np.maximum(size_K, 1)
    price_K = size_K * cost.slot + cost.of_shape(size_K) / rows_K
    upto_K = np.searchsorted(lengths, size_K, side="right")
    blocks_KK = upto_K - upto_K[:, None]  # of size k, for sequences longer than size i
    if not one_each:
        frames_K = np.append(0, np.cumsum(lengths))[upto_K]
        by_frames_KK = -((frames_K[:, None] - frames_K) // np.maximum(size_K, 1))  # rounded up
        half_K = np.searchsorted(lengths, size_K / 2, side="right")
        alone_KK = upto_K - np.maximum(upto_K[:, None], half_K)  # no two of them share a block
        blocks_KK = np.maximum(by_frames_KK, alone_KK)
    is_larger_KK = np.triu(np.ones(blocks_KK.shape, dtype=bool), 1)
    step_KK = np.where(is_larger_KK, blocks_KK * price_K, np.inf)
    cost_K, menu_K = step_KK[0], [(int(size),) for size in size_K]
    best = float(cost_K[-1]), menu_K[-1]
    for _ in range(min(number, len(size_K) - 1) - 1):
        total_KK = cost_K[:, None] + step_KK
        before_K, cost_K = total_KK.argmin(axis=0), total_KK.min(axis=0)
        menu_K = [(*menu_K[i], int(size)) for i, size in zip(before_K, size_K, strict=True)]
        best = min(best, (float(cost_K[-1]), menu_K[-1]))
    return best[1]


def check_sizes(sizes: Any, t_max: int) -> tuple[int, ...]:
    """Return block sizes in ascending order; there may be none.

    Raises:
        InputError: not a list of sizes, or the largest is not `t_max`.
    """
    is_list = isinstance(sizes, Sequence | np.ndarray)
    is_whole = is_list and all(isinstance(size, int | np.integer) and size > 0 for size in sizes)
    if not is_whole or (len(sizes) and max(sizes) != t_max):
        raise InputError(
            f"block_sizes is {sizes} and the largest block has {t_max} slots; give a list of sizes "
            f"with {t_max} as the largest, or to a loader the number of sizes to choose"
        )
    return tuple(sorted({int(size) for size in sizes}))


def pack_block_sizes(
    pack: Callable[..., Plan],
    lengths: np.ndarray,
    sizes: Sequence[int],
    rng: np.random.Generator,
    *,
    one_each: bool = False,
    **options: Any,
) -> Plan:
    """Pack into blocks of several sizes, in random order.

    From the largest size down, the sequences that need a size are packed together with random
    shorter ones that fill up their blocks. Each block then takes the smallest size that suffices.

    Args:
        sizes: slots of the blocks, ascending.
        one_each: `pack` puts one sequence or clip into a block, so that only the last step is left.
    """
    if one_each:
        plan = pack(lengths, sizes[-1], rng, **options)
        return replace(plan, slots=np.array(sizes)[np.searchsorted(sizes, plan.block_frames)])
    remaining, parts = rng.permutation(len(lengths)), []
    for smaller, size in zip((0, *sizes[:-1])[::-1], reversed(sizes), strict=True):
        long = remaining[lengths[remaining] > smaller]
        short = remaining[lengths[remaining] <= smaller]
        need = np.minimum(lengths[long], size)
        fits = np.cumsum(lengths[short]) <= lower_bound(need, size) * size - need.sum()
        members, remaining = np.concatenate([long, short[fits]]), short[~fits]
        if len(members):
            plan = pack(lengths[members], size, rng, **options)
            parts.append((members[plan.sequence], plan.first, plan.length, np.diff(plan.offsets)))
    sequence, first, length, counts = map(np.concatenate, zip(*parts, strict=True))
    block = rng.permutation(len(counts))
    begin, counts = (np.cumsum(counts) - counts)[block], counts[block]
    order = np.repeat(begin, counts) + index_within(counts)
    plan = plan_from_arrays(order, counts, (sequence, first, length), lengths, sizes[-1])
    return replace(plan, slots=np.array(sizes)[np.searchsorted(sizes, plan.block_frames)])
