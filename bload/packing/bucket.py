"""Buckets: sequences of similar length in a batch, each padded to the longest of the batch.

    |a a a a a|      one sequence in a row; batches of short
    |b b b b .|      sequences have more rows
    |c c c c c|

Sequences are sorted into buckets by length and drawn at random inside a bucket, as in the bucketing
sampler of Lhotse. Batches come in random order. Nothing is deleted, but the sequences in a batch
have similar lengths. Cost: a sort and one pass.
"""

import numpy as np

from bload.errors import check_whole
from bload.packing.pieces import LongWithoutCarry, shuffled_by_length, whole_pieces
from bload.packing.plan import Plan


def pack(
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    *,
    long: LongWithoutCarry = "error",
    buckets: int = 16,
    batch_slots: int = 0,
) -> Plan:
    """Draw batches from buckets that hold equally many frames each.

    Args:
        buckets: number of buckets, at most that of the sequences.
        batch_slots: slots in a batch, at least `t_max`; the loader passes its own.
    """
    buckets = check_whole("buckets", buckets, 1)
    sequence, first, length = whole_pieces(lengths, t_max, long)
    order = shuffled_by_length(length, rng)
    ends, buckets = np.cumsum(length[order]), min(buckets, len(order))
    begins = [-(-k * int(ends[-1]) // buckets) for k in range(buckets + 1)]  # may exceed int64
    limits = np.searchsorted(ends - 1, begins)
    full, batches = max(check_whole("batch_slots", batch_slots, 0), t_max), []
    for low, high in zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True):
        members = order[low:high][rng.permutation(high - low)]
        begin, longest = 0, 0
        for end, frames in enumerate(length[members].tolist()):
            longest = max(longest, frames)
            if longest * (end + 1 - begin) > full:
                batches.append(members[begin:end])
                begin, longest = end, frames
        if len(members):
            batches.append(members[begin:])
    batches = [batches[i] for i in rng.permutation(len(batches))]
    slots = np.concatenate([np.full(len(batch), length[batch].max()) for batch in batches])
    rows = np.concatenate(batches)
    segments = sequence[rows], first[rows], length[rows]
    ends = np.cumsum([0, *map(len, batches)])
    return Plan(t_max, lengths, *segments, np.arange(len(rows) + 1), slots, batches=ends)
