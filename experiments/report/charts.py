"""Charts by matplotlib, as SVG that follows the reader's light or dark colours.

Loaders have the labels and colours of `bload.draw`; other colours are variables of colours.css.
"""

import io
import re
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bload.draw import INK, PADDING, START, colour_of, draw_blocks, label_of
from bload.packers import PACKERS
from bload.plan import Plan
from experiments.report.figures import Estimate, Exhibit, Rows, cell, template

WIDTH = 5.7
"""Inches of 72 pixels."""
SOFT, RULE, PLAIN = "#535b68", "#d8dce3", "#2f6fb5"
VARIABLES = {INK: "ink", START: "start", PADDING: "pad", SOFT: "soft", RULE: "rule"}
STYLE = Path(__file__).parent / "charts.mplstyle"


def line_chart(
    title: str,
    points: pd.DataFrame,
    labels: tuple[str, str],
    rows: Rows,
    note: str,
    *,
    log: str = "",
    zero: bool = False,
    joined: bool = True,
    others: Mapping[str, pd.Series] | None = None,
) -> Exhibit:
    """A line per loader over a common plane, with bands where points have a low and a high.

    Args:
        points: columns `loader`, `x`, `y`, and `low`, `high` for bands, by x.
        labels: of the two axes.
        rows, note: of the exhibit.
        log: the logarithmic axes, such as ``xy``; `zero` lets the linear ones begin at 0.
        joined: draw lines from point to point.
        others: name -> y by x of broken lines without marks.
    """
    lines = dict(iter(points.groupby("loader", sort=False)))
    marks = dict(zip(PACKERS, cycle("osD^vPX"), strict=False))

    def draw(axis: Axes) -> None:
        for loader, part in lines.items():
            colour, mark = colour_of(loader), marks.get(loader.split(" ")[0], "*")
            look: dict[str, Any] = {"marker": mark, "ls": "-" if joined else "none"}
            axis.plot(part.x, part.y, color=colour, label=label_of(loader), clip_on=False, **look)
            if "low" in part:
                axis.fill_between(part.x, part.low, part.high, color=colour, alpha=0.15, lw=0)
        for (name, values), broken in zip((others or {}).items(), ("--", ":"), strict=False):
            axis.plot(values.index, values, broken, color=INK, linewidth=1.6, label=name)
        for name, scale in (("x", axis.xaxis), ("y", axis.yaxis)):
            if name in log:
                axis.set(**{f"{name}scale": "log"})
            elif zero:
                axis.set(**{f"{name}lim": (0, None)})
            if name not in log and not (points[name] % 1).any():
                scale.set_major_locator(MaxNLocator(integer=True))
            scale.set_major_formatter(_short)
        axis.set_xlabel(labels[0])
        axis.set_title(labels[1])
        axis.figure.legend(loc="outside upper left", ncols=2 if others else 3, borderaxespad=0)

    shown = []
    for loader, part in lines.items():
        ends = part.iloc[[0, -1]].itertuples()
        points_shown = dict.fromkeys(f"{end.y:,.1f} at {end.x:,.1f}" for end in ends)
        shown.append(f"{label_of(loader)} {' to '.join(points_shown)}")
    text = f"{labels[1]} by {labels[0]}: {'; '.join([*shown, *(others or {})])}.".replace(
        ".0 ", " "
    )
    return Exhibit(title, rows, note, _svg(title, 4, draw), text)


def interval_chart(
    title: str, figures: Mapping[str, Estimate], label: str, rows: Rows, note: str
) -> Exhibit:
    """A row per figure: its mark and its interval, on one scale."""

    def draw(axis: Axes) -> None:
        for name, of in figures.items():
            ends = [[of.mean - of.low], [of.high - of.mean]]
            axis.errorbar(of.mean, name, xerr=ends, fmt="o", color=PLAIN)
        axis.invert_yaxis()
        axis.margins(y=0.15)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(label)

    shown = "; ".join(f"{name} {cell(figure, '1')}" for name, figure in figures.items())
    svg = _svg(title, 0.9 + 0.36 * len(figures), draw)
    return Exhibit(title, rows, note, svg, f"{label}, with 95 % intervals: {shown}.")


def blocks_chart(title: str, plan: Plan, rows: int, widest: int) -> Exhibit:
    """The first blocks of a plan; `widest` slots take the whole width."""

    def draw(axis: Axes) -> None:
        draw_blocks(axis, plan, rows, widest)
        axis.grid(visible=False)

    svg = _svg(title, 0.35 + 0.17 * min(rows, plan.blocks), draw)
    text = f"The first {rows} blocks of {plan.t_max} slots. {title}."
    return Exhibit(title, [], "", svg, text, kind="blocks")


def svg_file(chart: Exhibit) -> str:
    """The chart as an SVG document of its own, with its title and the colours."""
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', chart.svg)[0])
    return template("chart.svg").render(chart=chart, width=width, height=height)


def _svg(title: str, height: float, draw: Callable[[Axes], None]) -> str:
    """The drawing without a size of its own; the same bytes each time."""
    with style.context([STYLE, {"svg.hashsalt": title}]):
        figure = Figure((WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    size, number, font = (
        r' (width|height)="[\d.]+pt"',
        r' id="[\w.]+_\d+"',
        r" ?font-family: [^;\"]+;?",
    )
    text = re.sub(f"{size}|{number}|{font}", "", text[text.index("<svg ") :])
    return re.sub(r"#[0-9a-f]{6}\b", _colour, text)


def _colour(found: re.Match) -> str:
    """A variable, or a colour that is lighter on dark paper."""
    name = VARIABLES.get(found[0])
    return f"var(--{name})" if name else f"color-mix(in srgb, {found[0]}, white var(--lift))"


def _short(value: float, _: float) -> str:
    """``20k`` of a tick."""
    for least, size, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / size:,.10g}{letter}"
    return f"{value:,.10g}"
