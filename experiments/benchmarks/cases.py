"""Lengths that packers are timed on: usual ones, many, and hard ones.

Hard are sets in which blocks of few pieces must add up to just `T_max`, or cannot.
"""

from dataclasses import dataclass

import numpy as np

from bload import action_genome_lengths
from bload.pieces import Long


@dataclass(frozen=True, slots=True)
class Case:
    """A set of lengths and the block that it is packed into."""

    name: str
    lengths: np.ndarray
    t_max: int
    long: Long = "error"
    """What happens to sequences above `t_max`, as in `bload.pieces.whole_pieces`."""


def usual_cases(most: int) -> list[Case]:
    """Action Genome, and drawn lengths of up to `most` sequences."""
    train, test = (action_genome_lengths(split) for split in ("train", "test"))
    cases = [
        Case("Action Genome, train", train, 94),
        Case("Action Genome, test", test, 121),
    ]
    numbers = [n for n in (100_000, 1_000_000, 10_000_000) if n <= most]
    cases += [Case(f"{n:,} of lognormal(6.0, 1.3)", lognormal(n), 8_192) for n in numbers]
    if most >= 1_000_000:
        drawn = np.random.default_rng(0).choice(train, 1_000_000)
        cases.insert(4, Case("1,000,000 drawn from train", drawn, 94))
    return cases


def lognormal(number: int) -> np.ndarray:
    """Lengths of documents in tokens, 1 to 8,192."""
    drawn = np.random.default_rng(0).lognormal(6.0, 1.3, number)
    return np.clip(drawn.astype(np.int64), 1, 8_192)


def hard_cases() -> list[Case]:
    """Sets of up to 24,000 pieces whose bounds can hardly be met, or cannot."""
    train, rng = action_genome_lengths(), np.random.default_rng(0)
    cases = [Case(f"train, split at {t}", train, t, "split") for t in (16, 32, 47)]
    cases += [
        Case("uniform, 1 to 1,000", rng.integers(1, 1_001, 2_000), 1_000),
        Case("triplets that fill blocks", _triplets(rng, 400, 1_000), 1_000),
        Case("two values, 34 and 41", rng.choice([34, 41], 3_000), 100),
        Case("33 to 46", rng.integers(33, 47, 3_000), 100),
    ]
    return cases


def _triplets(rng: np.random.Generator, blocks: int, t_max: int) -> np.ndarray:
    """Three sequences a block that fill it, all between a quarter and a half of it, shuffled."""
    first = rng.integers(t_max // 4 + 1, t_max // 2 - 1, blocks)
    low = np.maximum(t_max // 4 + 1, t_max - first - t_max // 2 + 1)
    high = np.minimum(t_max // 2, t_max - first - t_max // 4)
    second = rng.integers(low, high)
    return rng.permutation(np.concatenate([first, second, t_max - first - second]))
