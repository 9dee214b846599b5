"""Sampling: clips of exactly `t_max` frames; shorter sequences are dropped.

    a a a a a a a -> |a a a|     the rest of a is deleted
    b b           -> nothing

There is no padding and no reset inside a block, but frames and long context are lost. With
T = 22 = floor(mean length) on Action Genome's training split, the only T that deletes the paper's
92,271 frames (51,982 in 4,077 short videos, 40,289 cut from longer ones), there are 3,387 clips.
``clips=all`` cuts every sequence into all clips that it yields and deletes 79,093.

It is unknown which 22 frames the paper keeps. With a random place, later epochs see other frames of
the long sequences; short ones are never seen. Cost: a few vector operations.
"""

from typing import Literal

import numpy as np

from bload.errors import InputError, check_choice
from bload.packing.pieces import index_within
from bload.packing.plan import Plan

ClipPlace = Literal["random", "fixed", "first"]


def pack(
    lengths: np.ndarray,
    t_max: int,
    rng: np.random.Generator,
    *,
    place: ClipPlace = "random",
    clips: Literal["one", "all"] = "one",
) -> Plan:
    """Cut clips of `t_max` frames, in random order.

    Args:
        place: where the clip (or the row of clips) of a sequence begins: ``random``, drawn in every
            plan; ``fixed``, drawn once for all plans of these lengths; or at its ``first`` frame.
        clips: ``one`` per sequence, or ``all`` floor(length / t_max) of them, side by side.

    Raises:
        InputError: every sequence is shorter than `t_max`, so all would be deleted.
    """
    check_choice("clips", clips, ("one", "all"))
    if lengths.max() < t_max:
        raise InputError("no sequence has t_max frames to sample; lower t_max, or a multiple_of")
    number = lengths // t_max if clips == "all" else np.minimum(lengths // t_max, 1)
    offset = clip_offsets(lengths, number * t_max, place, rng)
    sequence = np.repeat(np.arange(len(lengths)), number)
    first = offset[sequence] + index_within(number) * t_max
    order = rng.permutation(len(sequence))
    full = np.full(len(sequence), t_max)
    return Plan(t_max, lengths, sequence[order], first[order], full, np.arange(len(sequence) + 1))


def clip_offsets(
    lengths: np.ndarray, kept: np.ndarray, place: ClipPlace, rng: np.random.Generator
) -> np.ndarray:
    """Return the first of the `kept` frames of each sequence, ``(sequences,)``."""
    check_choice("place", place, ("random", "fixed", "first"))
    if place == "first":
        return np.zeros_like(lengths)
    drawn = np.random.default_rng(0) if place == "fixed" else rng
    offset: np.ndarray = drawn.integers(0, lengths - kept, endpoint=True)
    return offset
