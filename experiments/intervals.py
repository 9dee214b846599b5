"""Means with their 95 % intervals, and how tables show them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """A mean of values and its 95 % interval; fewer than two values have none (NaN)."""

    mean: float
    low: float = math.nan
    high: float = math.nan

    def text(self, digits: int = 1, *, sign: bool = False) -> str:
        """Format: ``60.1 [58.0, 62.2]``, with a `sign` ``+0.3 [-0.1, 0.7]``; empty for nothing."""
        if math.isnan(self.mean):
            return ""
        mean = f"{self.mean:{'+' if sign else ''},.{digits}f}"
        if math.isnan(self.low):
            return mean
        return f"{mean} [{self.low:,.{digits}f}, {self.high:,.{digits}f}]"


def student(values: Iterable[float]) -> Interval:
    """Return the mean of independent values with Student's interval."""
    return _interval(values)


def welch(values: Iterable[float], others: Iterable[float]) -> Interval:
    """Return the mean of `values` less that of `others` with Welch's interval: unpaired samples."""
    return _interval(values, others)


def paired(values: pd.Series, others: pd.Series) -> Interval:
    """Return the mean difference of values with the same index, such as the seed."""
    return student(values - others)


def signed(differences: Iterable[float]) -> str:
    """Format the mean of independent differences with Student's interval, as tables show it."""
    return student(differences).text(sign=True)


def ratio(values: Iterable[float], others: Iterable[float]) -> Interval:
    """Return the ratio of geometric means of positive values, which are pairs in order.

    The interval is Student's of the logarithms.
    """
    a, b = (np.log(np.asarray([*one], dtype=float)) for one in (values, others))
    found = student(a - b)
    return Interval(*(math.exp(of) for of in (found.mean, found.low, found.high)))


def bootstrap(sums: np.ndarray, counts: np.ndarray) -> Interval:
    """Return sum over sum of pairs in order; the interval is that of 10,000 draws of the pairs."""
    drawn = np.random.default_rng(0).integers(len(sums), size=(10_000, len(sums)))
    ratios = sums[drawn].sum(1) / counts[drawn].sum(1)
    return Interval(sums.sum() / counts.sum(), *np.percentile(ratios, [2.5, 97.5]))


def holm(chances: pd.Series) -> pd.Series:
    """Return p-values adjusted for their number, after Holm."""
    rising = chances.sort_values()
    return (rising * np.arange(len(rising), 0, -1)).cummax().clip(upper=1)


def _interval(*samples: Iterable[float]) -> Interval:
    found = [pd.Series([*sample], dtype=float).dropna() for sample in samples]
    mean = found[0].mean() - sum(of.mean() for of in found[1:])
    half = error = math.hypot(*(of.sem() for of in found))  # NaN for fewer than two values
    if error > 0:  # equal values have no width
        freedom = error**4 / sum(of.sem() ** 4 / (len(of) - 1) for of in found)
        half = error * stats.t.ppf(0.975, freedom)
    return Interval(float(mean), mean - half, mean + half)
