"""BLoad, exact: random blocks, squeezed to the provable minimum where it can be reached.

    |a a a a|b b b|c|. .|      |a a a a|b b b|c|f f|
    |d d d d d d d|. . .|  ->  |d d d d d d d|g g g|
    |f f|g g g|. . . . .|

Start from the paper's random fill. Then, again and again, pool two blocks, mostly the emptiest and
a random one: one of the two gets the fullest subset of the pool that fits, drawn at random among
the fullest, and the other the rest. A block that runs empty is dropped. Stop at the lower bound of
`bload.bounds`, which proves that no packing has fewer blocks, or when the budget of moves is spent.
Every move keeps a valid packing.

On Action Genome's training split at T_max 94: 1,775 blocks = ceil(166,785 / 94), 65 padded slots,
in every epoch and for every seed tried; on the test split at T_max 121: 450 blocks, 79 padded.

Elsewhere the number of blocks is proved minimal only where it equals ``plan.lower_bound``. Where
squeezing stalls above it (tiny or tight sets, many sequences longer than half a block), a
best-fit-decreasing packing with shuffled ties is squeezed too and the smaller one kept. That
sometimes ends a block above the optimum, and sequences that share a block are less random.

Randomness kept: the plan is new each epoch, and which sequences share a block is as random as under
`bload` (pairs repeat in two successive epochs with a share of about 0.0005; the lengths of two
sequences in one block share about 0.003 nats of information; `python -m bload table --randomness`).
Given up: all lengths in a block have to add up, where under `bload` only the last had to fit.

Cost: 0.04 to 0.1 s for Action Genome, half a minute to two minutes for a million sequences of its
lengths; seconds for Action Genome cut to 22 frames, where squeezing stalls. The sums that a pool
can reach are the bits of one Python integer.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from bload.bounds import lower_bound
from bload.errors import InputError, spell
from bload.packers.bload import random_fill
from bload.pieces import Long, whole_pieces
from bload.plan import Plan, plan_from_blocks

MOST_SLOTS = 10**6
"""Slots of a block above which the sums of a pool, a bit each, take too long."""
MOVES_PER_BLOCK = 60
"""Squeezing gives up after this many moves per block (Action Genome takes about 3)."""
PARTNER_WITH_ROOM = 0.8
"""Share of moves that pool a block with room. The others pool the emptiest with any block, mostly
a full one: they swap pieces, so that the emptiest gets lengths that fit the last gaps."""
STIR = 0.5
"""Share of those that pool it with any block instead of the emptiest, which moves gaps about."""


def pack(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator, *, long: Long = "error"
) -> Plan:
    """Pack whole sequences into as few blocks as squeezing reaches, in random order.

    Args:
        long: as in `whole_pieces`; ``split`` clears the state at every cut.
    """
    if t_max > MOST_SLOTS:
        raise InputError(
            f"t_max is {t_max:,} and bload_exact takes at most {MOST_SLOTS:,} slots; lower "
            f"{spell('t_max')} or choose the packer bload"
        )
    pieces = whole_pieces(lengths, t_max, long)
    sizes = pieces[2]
    bound = lower_bound(sizes, t_max)
    blocks = squeeze(random_fill(sizes, t_max, rng), sizes, t_max, bound, rng)
    if len(blocks) > bound:
        other = squeeze(best_fit_decreasing(sizes, t_max, rng), sizes, t_max, bound, rng)
        blocks = min(blocks, other, key=len)
    order = rng.permutation(len(blocks))
    blocks = [[blocks[b][i] for i in rng.permutation(len(blocks[b]))] for b in order]
    return plan_from_blocks(blocks, pieces, lengths, t_max)


def squeeze(
    blocks: list[list[int]],
    lengths: np.ndarray,
    t_max: int,
    bound: int,
    rng: np.random.Generator,
) -> list[list[int]]:
    """Pool pairs of blocks until `bound` blocks are left or the budget of moves is spent.

    Args:
        blocks: one list of piece numbers per block.
        lengths: frames of every piece, ``(pieces,)``.
    """
    size = lengths.tolist()
    blocks = [list(block) for block in blocks]
    room = [t_max - sum(size[piece] for piece in block) for block in blocks]
    # Both contain every block with room, and stale entries that are dropped when they come up.
    with_room = [b for b in range(len(blocks)) if room[b]]
    emptiest_first = [(-room[b], b) for b in with_room]
    heapify(emptiest_first)
    chances = _Chances(rng)
    for _ in range(MOVES_PER_BLOCK * len(blocks)):
        if len(blocks) <= bound:
            break
        while not _is_current(emptiest_first[0], room):
            heappop(emptiest_first)
        one, two = emptiest_first[0][1], chances.below(len(blocks))
        if chances.happens(PARTNER_WITH_ROOM):
            pick = chances.below(len(with_room))
            if with_room[pick] >= len(blocks) or not room[with_room[pick]]:
                with_room[pick] = with_room[-1]
                with_room.pop()
                continue
            if chances.happens(STIR):
                one = with_room[pick]
            else:
                two = with_room[pick]
        if one == two:
            continue
        fuller, rest, left = fullest_subset(blocks[one] + blocks[two], size, t_max, chances)
        if not room[one]:
            with_room.append(one)  # it gets room now; block two never does
        blocks[one], room[one] = rest, room[one] + room[two] - left
        blocks[two], room[two] = fuller, left
        if not rest:
            blocks[one], room[one] = blocks[-1], room[-1]
            blocks.pop()
            room.pop()
        for b in (one, two):
            if b < len(blocks) and room[b]:
                heappush(emptiest_first, (-room[b], b))
    return blocks


def _is_current(entry: tuple[int, int], room: list[int]) -> bool:
    return entry[1] < len(room) and room[entry[1]] == -entry[0]


def fullest_subset(
    pool: list[int], size: list[int], t_max: int, chances: "_Chances"
) -> tuple[list[int], list[int], int]:
    """Split a pool into a subset that fills a block as far as possible, the rest, the room left.

    Bit s of ``reach[i]`` is set when some of the first i pieces sum to s. Among several fullest
    subsets a fair coin decides piece by piece.
    """
    chances.shuffle(pool)
    fits = (1 << (t_max + 1)) - 1
    reach = [1]
    for piece in pool:
        sums = reach[-1]
        reach.append((sums | (sums << size[piece])) & fits)
    target = reach[-1].bit_length() - 1
    left = t_max - target
    subset, rest = [], []
    for i in range(len(pool) - 1, -1, -1):
        piece = pool[i]
        without = reach[i] >> target & 1
        below = target - size[piece]
        with_it = below >= 0 and reach[i] >> below & 1
        if with_it and (not without or chances.happens(0.5)):
            subset.append(piece)
            target = below
        else:
            rest.append(piece)
    return subset, rest, left


def best_fit_decreasing(
    lengths: np.ndarray, t_max: int, rng: np.random.Generator
) -> list[list[int]]:
    """Put the longest piece first, each into the fullest block with room for it; shuffle ties."""
    shuffled = rng.permutation(len(lengths))
    order = shuffled[np.argsort(-lengths[shuffled], kind="stable")]
    size = lengths.tolist()
    with_room: list[list[list[int]]] = [[] for _ in range(t_max + 1)]
    rooms = 0  # bit r is set when some block has r free slots
    blocks: list[list[int]] = []
    for piece in order.tolist():
        enough = rooms >> size[piece]
        if enough:
            room = size[piece] + (enough & -enough).bit_length() - 1
            block = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
        else:
            room, block = t_max, []
            blocks.append(block)
        block.append(piece)
        left = room - size[piece]
        if left:
            with_room[left].append(block)
            rooms |= 1 << left
    return blocks


class _Chances:
    """Uniform numbers from a generator, drawn many at a time: one at a time is slow in Python."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.stock: list[float] = []

    def next(self) -> float:
        if not self.stock:
            self.stock = self.rng.random(4096).tolist()
        return self.stock.pop()

    def below(self, n: int) -> int:
        return int(self.next() * n)

    def happens(self, share: float) -> bool:
        return self.next() < share

    def shuffle(self, items: list[int]) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = int(self.next() * (i + 1))
            items[i], items[j] = items[j], items[i]
