"""Carried state: sequences longer than a block pass their state from step to step.

    row 0   |a a a a a a|a a a a a a|a a b b b .|c c c c d d|      a is cut into three pieces, in
    row 1   |e e e f f f|g g g g g .|h h h h h h|h h i i i i|      three steps; a step is a column

The pieces of a long sequence take the same row in successive steps of the same rank. Only the first
is a start; the others continue with the row's state at the end of the step before, detached
(truncated back-propagation through time). The last piece shares its block with whole sequences.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bload.packing.fill import fill
from bload.packing.pieces import whole_pieces
from bload.packing.plan import Plan, plan_from_blocks


def pack_carry(
    pack: Callable[..., Plan],
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    *,
    one_each: bool = False,
    **options: Any,
) -> Plan:
    """Cut sequences longer than a block, and pack the other sequences with `pack`.

    Args:
        one_each: `pack` puts one sequence into a block; else short ones fill blocks of last pieces.
    """
    pieces = sequence, _, length = whole_pieces(lengths, t_max, "split")
    is_long = lengths[sequence] > t_max
    long, short = np.flatnonzero(is_long), np.flatnonzero(~is_long)
    blocks = [[piece] for piece in long.tolist()]
    if not one_each:
        order, counts = fill(length[short], t_max, rng, rooms=t_max - length[long])
        filled = np.split(short[order], np.cumsum(counts))[:-1]
        for block, added in zip(blocks, filled, strict=True):
            block += added.tolist()
        short = np.delete(short, order)
    if len(short):
        plan = pack(length[short], t_max, rng, **options)
        blocks += [short[plan.block(b).sequence].tolist() for b in range(plan.num_blocks)]
    blocks = [blocks[b] for b in rng.permutation(len(blocks))]
    return replace(plan_from_blocks(blocks, pieces, lengths, t_max), carries=True)
