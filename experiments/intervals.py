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
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        if math.isnan(self.low):
            return mean
        return f"{mean} [{self.low:z,.{digits}f}, {self.high:z,.{digits}f}]"


def t_interval(values: Iterable[float]) -> Interval:
    """Return the mean of independent values with Student's interval."""
    sample = pd.Series([*values], dtype=float).dropna()
    mean, error = float(sample.mean()), sample.sem()  # NaN for fewer than two values
    half_width = error * stats.t.ppf(0.975, len(sample) - 1)
    return Interval(mean, mean - half_width, mean + half_width)


def signed(differences: Iterable[float]) -> str:
    """Format the mean of independent differences with Student's interval, as tables show it."""
    return t_interval(differences).text(sign=True)


def ratio(values: Iterable[float], others: Iterable[float]) -> Interval:
    """Return the ratio of geometric means of positive values, which are pairs in order.

    The interval is Student's of the logarithms. If a value is missing, so is the ratio (NaN).
    """
    logs, other_logs = (np.log(np.asarray([*series], dtype=float)) for series in (values, others))
    differences = logs - other_logs
    interval = t_interval([] if np.isnan(differences).any() else differences)
    return Interval(*map(math.exp, (interval.mean, interval.low, interval.high)))


def holm(chances: pd.Series) -> pd.Series:
    """Return p-values adjusted for their number, after Holm."""
    rising = chances.sort_values()
    return (rising * np.arange(len(rising), 0, -1)).cummax().clip(upper=1)


def corrected(groups: Iterable[Iterable[float]]) -> list[str]:
    """Format differences that are read together as `signed` does.

    A star marks those that differ from 0 at 5 %, after `holm`.
    """
    samples = [pd.Series([*group], dtype=float).dropna() for group in groups]
    with np.errstate(divide="ignore", invalid="ignore"):  # where seeds do not differ
        chances = [
            2 * stats.t.sf(abs(sample.mean()) / sample.sem(), len(sample) - 1) for sample in samples
        ]
    adjusted = holm(pd.Series(chances, dtype=float).dropna())
    significant = {*adjusted.index[adjusted < 0.05]}
    return [signed(s) + ("*" if n in significant else "") for n, s in enumerate(samples)]
