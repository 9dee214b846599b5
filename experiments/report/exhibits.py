"""Figures with 95 % intervals, and the texts, tables and charts that show them.

Texts may hold `code` between backticks, as in Markdown; long ones are in notes.md.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import (
    ChoiceLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    Template,
    select_autoescape,
)
from markupsafe import Markup, escape
from scipy import stats

from bload.draw import label_of
from bload.errors import printable


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of `count` values with its interval; fewer than two have none (NaN)."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    count: int = 0


def estimate(values: Iterable[float], base: Iterable[float] | None = None) -> Estimate:
    """The mean of independent values with Student's interval.

    With another sample as `base` the difference of the means, with Welch's interval: unpaired, and
    spreads may differ.
    """
    samples = [values] if base is None else [values, base]
    found = [pd.Series(sample, dtype=float).dropna() for sample in samples]
    mean = found[0].mean() - sum(of.mean() for of in found[1:])
    error = math.hypot(*(of.sem() for of in found))
    half = error  # no width for equal values, no interval for fewer than two
    if error > 0:
        freedom = error**4 / sum(of.sem() ** 4 / (len(of) - 1) for of in found)
        half *= stats.t.ppf(0.975, freedom)
    return Estimate(mean, mean - half, mean + half, min(map(len, found)))


def ratio(ones: Iterable[float], others: Iterable[float], *, paired: bool = False) -> Estimate:
    """The ratio of geometric means of positive values; the interval is of the logarithms."""
    a, b = (np.log(np.asarray(values, dtype=float)) for values in (ones, others))
    found = estimate(a - b) if paired else estimate(a, b)
    mean, low, high = (math.exp(of) for of in (found.mean, found.low, found.high))
    return Estimate(mean, low, high, found.count)


class Cell(str):
    """The text of a table's cell, the figure behind it if it is one, and the page it leads to.

    A link is a path from the report's folder, as in an address.
    """

    figure: Estimate | None = None
    link: str = ""


Rows = list[dict[str, Cell]]


def cell(value: Any, form: str = "0") -> Cell:
    """A text; ``1,234``, ``+0.3``, ``60.1 [58.0, 62.2]`` of a figure; ``-`` for nothing.

    `form` has the digits after the point, and a plus before them if signs are shown.
    """
    if value is None or isinstance(value, str):
        return Cell(value or "-")
    figure = value if isinstance(value, Estimate) else Estimate(float(value))
    if math.isnan(figure.mean):
        return Cell("-")
    sign, digits = "+" * form.startswith("+"), int(form)
    mean, low, high = (f"{of:{sign},.{digits}f}" for of in (figure.mean, figure.low, figure.high))
    whole = "0" if sign and not round(figure.mean, digits) else mean
    made = Cell(whole if math.isnan(figure.low) else f"{mean} [{low}, {high}]")
    made.figure = figure
    return made


def rows(first: str, columns: Any, forms: str = "", name: Callable[[Any], str] = label_of) -> Rows:
    """Rows of cells from columns that map the key of a row to its figure.

    Args:
        first: heading of the column that names the rows, by `name` of their keys.
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

    All rows have the same headings, of which the first one names the row. `alternative` says what a
    drawing shows; `save` writes it to a file of the kind ``svg`` or ``pdf``. `kind` is ``cards``
    (rows under one another), ``words`` (long texts), or ``lead``.
    """

    title: str
    rows: Rows
    note: str = ""
    svg: str = ""
    alternative: str = ""
    kind: str = ""
    save: Callable[..., None] | None = None

    @property
    def numeric(self) -> list[bool]:
        """The columns of figures, which are set to the right."""
        return [any(row[heading].figure for row in self.rows) for heading in self.rows[0]]


Part = str | Exhibit
NOT_HERE = "Not here: "
"""Begins the text in place of what has not been run, which ends with what to run."""


@cache
def template(name: str) -> Template:
    """A template of this folder; ``{{ value | figure("1") }}`` shows a value as `cell` does."""
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("experiments.report", "."), PackageLoader("training.page", ".")]
        ),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": cell, "label": label_of, "drawing": Markup}
    environment.filters |= {"prose": _prose, "line": _line}
    return environment.get_template(name)


def note(name: str, *values: Any) -> str:
    """The text of that name in notes.md, on one line."""
    return " ".join(getattr(template("notes.md").module, name)(*values).split())


def missing(what: str, experiment: str) -> str:
    """The text in place of what has not been run."""
    return f"{NOT_HERE}{what}. Run `{command_of(experiment)}`"


def command_of(experiment: str) -> str:
    """The command that runs an experiment."""
    if experiment in ("deadlock", "length_variance", "alternatives", "epoch_time"):
        return f"python -m experiments.{experiment}"
    return f"python train.py -m experiment={experiment}"


def _prose(text: str) -> Markup:
    """Escaped text: `code` between backticks is code, intervals are small, links lead there."""
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    if getattr(text, "figure", None):
        shown = re.sub(r"(\[.+\])", r"<small>\1</small>", shown)
    if link := getattr(text, "link", ""):
        shown = f'<a href="{escape(link)}">{shown}</a>'
    return Markup(shown)


def _line(text: str) -> str:
    """One line of Markdown in which nothing from a run is a column, a tag or a link.

    A backslash before these would take back their own.
    """
    shown = re.sub(r"\\(?=[\\|<(])|[|<]|(?<=\])\(", r"\\\g<0>", printable(text))
    link = getattr(text, "link", "")
    return f"[{shown}]({link})" if link else shown
