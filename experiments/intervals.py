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
    known = pd.Series([*values], dtype=float).dropna()
    mean, error = float(known.mean()), known.sem()  # NaN for fewer than two values
    half = error * stats.t.ppf(0.975, len(known) - 1)
    return Interval(mean, mean - half, mean + half)


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


def corrected(groups: Iterable[Iterable[float]]) -> list[str]:
    """Format differences that are read together as `signed` does.

    A star marks those that differ from 0 at 5 %, after `holm`.
    """
    known = [pd.Series([*group], dtype=float).dropna() for group in groups]
    chances = [2 * stats.t.sf(abs(group.mean()) / group.sem(), len(group) - 1) for group in known]
    adjusted = holm(pd.Series(chances, dtype=float).dropna())
    sure = {*adjusted.index[adjusted < 0.05]}
    return [signed(group) + "*" * (place in sure) for place, group in enumerate(known)]
