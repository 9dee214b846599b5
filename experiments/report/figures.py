"""Figures with 95 % intervals, and the texts, tables and charts that show them.

Texts may hold `code` between backticks, as in Markdown; long ones are in notes.md.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup, escape
from scipy import stats
from tabulate import tabulate

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
class Exhibit:
    """A table, a chart, or a chart with the figures that it shows.

    All rows have the headings of the first one, whose first column names the row.
    """

    title: str
    rows: Rows
    note: str = ""
    svg: str = ""
    alternative: str = ""
    """What a drawing shows, as text."""
    kind: str = ""
    """``cards``: rows one under another; ``words``: of long texts; ``blocks``: no plot."""

    @property
    def numeric(self) -> list[bool]:
        """The columns of figures, which are set to the right."""
        return [any(row[heading].figure for row in self.rows) for heading in self.rows[0]]


Block = str | Exhibit


@cache
def template(name: str) -> Template:
    """A template of this folder; ``{{ value | figure("1") }}`` shows a value as `cell` does."""
    environment = Environment(
        loader=PackageLoader("experiments.report", "."),
        autoescape=select_autoescape(["html", "svg"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": cell, "label": label_of, "drawing": Markup}
    environment.filters |= {"prose": _prose, "line": _line, "markdown": _markdown}
    return environment.get_template(name)


def note(name: str, *values: Any) -> str:
    """The text of that name in notes.md, on one line."""
    return " ".join(getattr(template("notes.md").module, name)(*values).split())


def missing(what: str, experiment: str) -> str:
    """The text in place of what has not been run."""
    return f"Not here: {what}. Run `{command_of(experiment)}`"


def command_of(experiment: str) -> str:
    if experiment.removesuffix("_quick") in ("deadlock", "length_variance"):
        return f"python -m experiments.{experiment}"
    return f"python train.py -m experiment={experiment}"


def _prose(text: str) -> Markup:
    """Escaped text in which `code` between backticks is set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _line(text: str) -> str:
    """One line of Markdown in which nothing from a run is a column, a tag or a link."""
    return re.sub(r"[|<]|(?<=\])\(", r"\\\g<0>", " ".join(text.split()))


def _markdown(table: Exhibit) -> str:
    lines = [{name: _line(cell) for name, cell in row.items()} for row in table.rows]
    sides = ["right" if numeric else "left" for numeric in table.numeric] if lines else None
    text = tabulate(lines, "keys", "pipe", disable_numparse=True, colalign=sides)
    return re.sub("  +", " ", re.sub("-{4,}", "---", text))
