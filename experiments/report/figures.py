"""Figures with 95 % intervals, and the cells, tables and charts that show them.

Texts may hold `code` between backticks, as in Markdown.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bload.draw import label_of

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval, which takes two values; None where there are fewer."""

    mean: float
    low: float | None = None
    high: float | None = None
    count: int | None = None
    """Values behind the figure, such as seeds."""

    def text(self, form: str = "1") -> str:
        """``60.1 [58.0, 62.2]``, or the figure alone where there is no interval.

        `form` has the digits after the point, and a plus before them if signs are shown.
        """
        sign, digits = "+" * form.startswith("+"), int(form)
        ends = [] if self.low is None else [self.low, self.high]
        mean, *interval = (f"{value:{sign},.{digits}f}" for value in (self.mean, *ends))
        return f"{mean} [{', '.join(interval)}]" if interval else mean


def estimate(values: Iterable[float]) -> Estimate | None:
    """The mean of independent values with Student's interval; None without any value."""
    found = pd.Series(values, dtype=float).dropna()
    return _interval(found.mean(), stats.ttest_1samp, found, popmean=0)


def difference(ones: Iterable[float], others: Iterable[float]) -> Estimate | None:
    """mean(ones) - mean(others) with Welch's interval: unpaired, and spreads may differ."""
    a, b = (pd.Series(values, dtype=float).dropna() for values in (ones, others))
    return _interval(a.mean() - b.mean(), stats.ttest_ind, a, b, equal_var=False)


def ratio(ones: Sequence[float], others: Sequence[float], *, paired: bool = False) -> Estimate:
    """The ratio of geometric means of positive values; the interval is of the logarithms."""
    a, b = np.log(ones), np.log(others)
    found = estimate(a - b) if paired else difference(a, b)
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return Estimate(math.exp(found.mean), low, high, found.count)


def _interval(mean: float, test: Callable, *samples: pd.Series, **options) -> Estimate | None:
    """The interval of scipy's t-test of the samples; none where one has a single value."""
    mean, count = float(mean), min(map(len, samples))
    if count < 2:
        return Estimate(mean, count=count) if count else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # equal values: an interval of no width
        ends = test(*samples, **options).confidence_interval(CONFIDENCE)
    low, high = (mean if math.isnan(end) else float(end) for end in ends)
    return Estimate(mean, low, high, count)


class Cell(str):
    """What a table's cell says, and the figure behind it if it is one."""

    figure: Estimate | None = None


Rows = list[dict[str, Cell]]


def cell(value: Any, form: str = "0") -> Cell:
    """A text, ``1,234``, ``+0.3``, an estimate with its interval, or ``-`` for nothing."""
    if isinstance(value, str):
        return value if isinstance(value, Cell) else Cell(value or "-")
    if value is None or value != value:
        return Cell("-")
    figure = value if isinstance(value, Estimate) else Estimate(float(value))
    zero = form.startswith("+") and figure.low is None and not round(figure.mean, int(form))
    made = Cell("0" if zero else figure.text(form))
    made.figure = figure
    return made


def rows(
    first: str, columns: Mapping[str, Any], forms: str = "", name: Callable[[Any], str] = label_of
) -> Rows:
    """Rows of cells from columns that map the key of a row to its figure.

    Args:
        first: the column of what rows are called, which is `name` of their key.
        columns: heading -> Series or dict; the first one has all rows.
        forms: how `cell` shows each column; further ones have no digits after the point.
    """
    found = {heading: dict(values) for heading, values in columns.items()}
    shown = list(zip_longest(found, forms.split(), fillvalue="0"))
    return [
        {first: Cell(name(key))}
        | {heading: cell(found[heading].get(key), form) for heading, form in shown}
        for key in next(iter(found.values()))
    ]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, all with the headings of the first one, which names the row."""

    title: str
    rows: Rows
    note: str = ""
    kind: str = ""
    """``cards``: rows one under another; ``words``: of long texts."""

    def is_numeric(self, heading: str) -> bool:
        """True for a column of figures, which are set to the right."""
        return any(row[heading].figure for row in self.rows)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its text alternative and the figures that it shows."""

    title: str
    svg: str
    alternative: str
    note: str = ""
    table: Table | None = None
    is_plot: bool = True
    """Plots are written as files too."""


Block = str | Table | Chart


def missing(what: str, experiment: str) -> str:
    """The text in place of what has not been run."""
    return f"Not here: {what}. Run `{command_of(experiment)}`"


def command_of(experiment: str) -> str:
    if experiment.removesuffix("_quick") in ("deadlock", "length_variance"):
        return f"python -m experiments.{experiment}"
    return f"python train.py -m experiment={experiment}"
