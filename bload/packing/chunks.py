"""Plans of a part of an epoch at a time: its order, place by place, and packing beside training."""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np

from bload.packing.packers import find_packer, make_plan
from bload.packing.plan import Plan

ROUNDS = 6
"""Rounds of the Feistel network, an even number."""
MIX, MIX_AGAIN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
MIN_APART = 100_000
"""Sequences from which a chunk takes longer to pack than a process to start."""
CALL = (
    "import pickle, sys; from bload.packing.packers import make_plan;"
    "place, options = pickle.load(sys.stdin.buffer);"
    "pickle.dump(make_plan(*place, **options), sys.stdout.buffer)"
)


def chunk_order(sequences: int, seed: int, epoch: int, first: int, count: int) -> np.ndarray:
    """Return the sequences at `count` places of an epoch's order, fewer at its end."""
    rng = np.random.default_rng([seed, epoch, 3])
    keys = rng.integers(0, 2**64, ROUNDS, dtype=np.uint64)
    return permuted(np.arange(first, min(first + count, sequences)), sequences, keys)


def plan_apart(lengths: np.ndarray, packer: str, *place: Any, **options: Any) -> Plan:
    """Call `make_plan`, for many lengths in a process of its own.

    Beside training a thread would not do: it holds the interpreter for milliseconds, again and
    again in a training step. A packer that is not the library's may exist in this process alone.
    """
    is_known = find_packer(packer).pack.__module__.startswith("bload.packing.")
    if len(lengths) < MIN_APART or not is_known:
        return make_plan(lengths, packer, *place, **options)
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        input=pickle.dumps(((lengths, packer, *place), options)),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    plan: Plan = pickle.loads(done.stdout)
    return plan


def permuted(place: np.ndarray, size: int, keys: np.ndarray) -> np.ndarray:
    """Return the numbers at some places of a pseudorandom order of `size` numbers.

    A Feistel network permutes all numbers of some bits. A number that is not below `size` is put
    through it again until it is. `keys` are random uint64, an even number of them.
    """
    bits = max((size - 1).bit_length(), 2)
    number = _feistel(place.astype(np.uint64), bits, keys)
    while len(beyond := np.flatnonzero(number >= size)):
        number[beyond] = _feistel(number[beyond], bits, keys)
    return number.astype(np.int64)


def _feistel(number: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    low, high = np.uint64(bits // 2), np.uint64(bits - bits // 2)
    left, right = number >> low, number & np.uint64((1 << int(low)) - 1)
    for key in keys:
        mixed = (right ^ key) * MIX
        mixed ^= mixed >> np.uint64(32)
        mixed *= MIX_AGAIN
        left, right = right, left ^ (mixed >> (np.uint64(64) - high))
        low, high = high, low
    joined: np.ndarray = left << low | right
    return joined
