"""Means, differences and ratios with 95 % intervals, by Student's t and Welch's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval, which takes two values; None where there are fewer."""

    mean: float
    low: float | None
    high: float | None
    deviation: float | None
    """Standard deviation of the values; None for differences and ratios."""
    count: int

    @property
    def has_interval(self) -> bool:
        return self.low is not None


def ratio_of_pairs(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """The geometric mean of paired ratios, its interval Student's t of their logarithms."""
    logs = estimate([math.log(a / b) for a, b in zip(above, below, strict=True)])
    low, high = (None if one is None else math.exp(one) for one in (logs.low, logs.high))
    return Estimate(math.exp(logs.mean), low, high, None, logs.count)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent values and its interval by the t-distribution."""
    if not len(values):
        raise ValueError("no value has no mean")
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(mean, None, None, None, count)
    deviation = float(np.std(values, ddof=1))
    half = _quantile(count - 1) * deviation / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, deviation, count)


def difference(ones: Sequence[float], others: Sequence[float]) -> Estimate:
    """mean(ones) - mean(others) with Welch's interval: unpaired, spreads may differ."""
    mean = float(np.mean(ones) - np.mean(others))
    count = min(len(ones), len(others))
    if count < 2:
        return Estimate(mean, None, None, None, count)
    half = _welch_half(ones, others)
    return Estimate(mean, mean - half, mean + half, None, count)


def paired_difference(ones: Mapping[int, float], others: Mapping[int, float]) -> Estimate | None:
    """The mean of ones - others over the keys of both, Student's t; None without any."""
    pairs = [ones[key] - others[key] for key in sorted(ones.keys() & others.keys())]
    if not pairs:
        return None
    mean = estimate(pairs)
    return Estimate(mean.mean, mean.low, mean.high, None, mean.count)


def ratio(ones: Sequence[float], others: Sequence[float]) -> Estimate:
    """The ratio of geometric means of positive values; Welch's interval of the logarithms."""
    between = difference(np.log(ones), np.log(others))
    low, high = (None if v is None else math.exp(v) for v in (between.low, between.high))
    return Estimate(math.exp(between.mean), low, high, None, between.count)


def _welch_half(ones: Sequence[float], others: Sequence[float]) -> float:
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (ones, others)]
    variance = sum(parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (ones, others), strict=True)
    )
    return _quantile(freedom) * math.sqrt(variance)


def _quantile(freedom: float) -> float:
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
